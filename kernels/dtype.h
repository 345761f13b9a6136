// Element types of weights, with ggml's numbering and block layouts.
#ifndef CAIRN_KERNELS_DTYPE_H_
#define CAIRN_KERNELS_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::kernels {

// Values equal ggml's `ggml_type`, so that a file's number converts by lookup.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct DTypeInfo {
  std::string_view name;
  int block_elements;  // weights per block along the contiguous dimension
  int block_bytes;
};

// nullopt when the number is no type that we read.
std::optional<DType> DTypeFromGgml(uint32_t number);
const DTypeInfo& Info(DType type);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_DTYPE_H_
