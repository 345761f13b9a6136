// Bit positions inside ggml's 256-weight blocks that both dequantising and packing need.
#ifndef CAIRN_KERNELS_K_SCALES_H_
#define CAIRN_KERNELS_K_SCALES_H_

#include <cstdint>

namespace cairn::kernels {

struct KScale {
  uint8_t scale;  // 0 .. 63
  uint8_t min;    // 0 .. 63
};

// Group j (0 .. 7) of the 12 bytes that hold eight 6-bit scales and minima in Q4_K and Q5_K: groups
// 0-3 have their own bytes; groups 4-7 have the low four bits in bytes 8-11 and the top two above
// those of groups 0-3.
inline KScale GetKScale(const uint8_t* p, int j) {
  if (j < 4) return {static_cast<uint8_t>(p[j] & 63), static_cast<uint8_t>(p[j + 4] & 63)};
  return {static_cast<uint8_t>((p[j + 4] & 15) | (p[j - 4] >> 6) << 4),
          static_cast<uint8_t>(p[j + 4] >> 4 | (p[j] >> 6) << 4)};
}

// Weight i (0 .. 255) of a Q6_K block, 0 .. 63, before 32 is subtracted.
inline int Q6Weight(const uint8_t* block, int i) {
  const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
  const uint8_t low = block[half * 64 + (quarter % 2) * 32 + l];
  const uint8_t high = block[128 + half * 32 + l];
  return (quarter < 2 ? low & 15 : low >> 4) | (high >> (2 * quarter) & 3) << 4;
}

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_K_SCALES_H_
