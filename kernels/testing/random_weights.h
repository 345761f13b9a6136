// Seeded weights in ggml's layouts, and vectors, for tests and benchmarks.
#ifndef CAIRN_KERNELS_TESTING_RANDOM_WEIGHTS_H_
#define CAIRN_KERNELS_TESTING_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/dtype.h"

namespace cairn::kernels {

inline constexpr DType kAllTypes[] = {DType::kF32,  DType::kF16,    DType::kBF16, DType::kQ4_0,
                                      DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1, DType::kQ8_0,
                                      DType::kQ4_K, DType::kQ5_K,   DType::kQ6_K, DType::kQ2_K,
                                      DType::kQ3_K, DType::kIQ4_NL, DType::kMXFP4};

// Every code of a quantised type is equally likely; block scales are of both signs (but MXFP4's),
// 2^-10 to 2^-4.
std::vector<uint8_t> RandomWeights(DType type, int64_t rows, int64_t cols, std::mt19937* rng);

// The same with every integer code at its largest magnitude: where narrow sums would overflow.
std::vector<uint8_t> ExtremeWeights(DType type, int64_t rows, int64_t cols);

// Normally distributed.
std::vector<float> RandomFloats(int64_t count, std::mt19937* rng);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_TESTING_RANDOM_WEIGHTS_H_
