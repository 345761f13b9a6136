#include "kernels/testing/random_weights.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/half.h"

namespace cairn::kernels {
namespace {

void StoreHalfAt(uint8_t* p, float x) {
  const uint16_t h = FloatToHalfBits(x);
  std::memcpy(p, &h, 2);
}

// Where the F16 scale and minimum stand in a block (-1: none).
struct ScalePlaces {
  int d = 0;
  int m = -1;
};

ScalePlaces PlacesOf(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208, -1};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108, -1};
    case DType::kMXFP4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

std::vector<uint8_t> FloatWeights(DType type, const std::vector<float>& values) {
  std::vector<uint8_t> out(values.size() * Info(type).block_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DType::kF32) std::memcpy(&out[4 * i], &values[i], 4);
    if (type == DType::kF16) StoreHalfAt(&out[2 * i], values[i]);
    if (type == DType::kBF16) {
      const uint16_t high = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16);
      std::memcpy(&out[2 * i], &high, 2);
    }
  }
  return out;
}

}  // namespace

std::vector<uint8_t> RandomWeights(DType type, int64_t rows, int64_t cols, std::mt19937* rng) {
  if (Info(type).block_elements == 1) return FloatWeights(type, RandomFloats(rows * cols, rng));
  const int64_t blocks = rows * cols / Info(type).block_elements;
  std::vector<uint8_t> out(blocks * Info(type).block_bytes);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>((*rng)());
  std::uniform_real_distribution<float> exponent(-10, -4);
  const ScalePlaces places = PlacesOf(type);
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t* block = &out[b * Info(type).block_bytes];
    if (type == DType::kMXFP4) block[0] = static_cast<uint8_t>(116 + (*rng)() % 8);
    for (int at : {places.d, places.m}) {
      if (at >= 0)
        StoreHalfAt(block + at, ((*rng)() % 2 ? 1.0f : -1.0f) * std::exp2(exponent(*rng)));
    }
  }
  return out;
}

std::vector<uint8_t> ExtremeWeights(DType type, int64_t rows, int64_t cols) {
  if (Info(type).block_elements == 1)
    return FloatWeights(type, std::vector<float>(rows * cols, 3.0f));
  const int64_t blocks = rows * cols / Info(type).block_elements;
  // All ones is the largest code, except of signed bytes, where it is -1, and where zeros stand for
  // the most negative value.
  const uint8_t fill = type == DType::kQ8_0                             ? 0x80
                       : type == DType::kQ3_K || type == DType::kIQ4_NL ? 0
                                                                        : 0xFF;
  std::vector<uint8_t> out(blocks * Info(type).block_bytes, fill);
  const ScalePlaces places = PlacesOf(type);
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t* block = &out[b * Info(type).block_bytes];
    if (type == DType::kQ6_K) std::memset(block + 192, 0x80, 16);  // scales of -128
    if (type == DType::kMXFP4) block[0] = 143 + 3;                 // stored times eight
    for (int at : {places.d, places.m}) {
      if (at >= 0) StoreHalfAt(block + at, 0.125f);
    }
  }
  return out;
}

std::vector<float> RandomFloats(int64_t count, std::mt19937* rng) {
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& x : out) x = normal(*rng);
  return out;
}

}  // namespace cairn::kernels
