// Half-precision conversions for code that is compiled without instruction-set flags. Not for the
// ISA files.
#ifndef CAIRN_KERNELS_HALF_H_
#define CAIRN_KERNELS_HALF_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace cairn::kernels {

inline float HalfBitsToFloat(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16;
  const uint32_t magnitude = h & 0x7FFFu;
  if (magnitude >= 0x7C00u)
    return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  // Shifting the half into place leaves its exponent 112 too small; the product repairs it,
  // subnormals too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

// Rounds to nearest even; overflow gives infinity; NaN stays NaN.
inline uint16_t FloatToHalfBits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return sign | 0x7E00u | static_cast<uint16_t>(magnitude >> 13 & 0x3FFu);
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // from 65520 on
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, steps of 2^-24
    // Adding 0.5 puts the step at the last bit of the sum, and the addition rounds.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(sum) - 0x3F000000u);
  }
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

inline float LoadHalf(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  return HalfBitsToFloat(h);
}

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_HALF_H_
