// Codes inside ggml's blocks that both dequantising and packing need.
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

// Low two bits of weight i (0 .. 255) in the 64 bytes of pairs of Q2_K and Q3_K.
inline int Pair(const uint8_t* pairs, int i) {
  return pairs[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
}

// Weight i of a Q3_K block, 0 .. 7, before 4 is subtracted: bit 2 comes from the 32 bytes in front.
inline int Q3Weight(const uint8_t* block, int i) {
  return Pair(block + 32, i) | (block[i % 32] >> (i / 32) & 1) << 2;
}

// Scale of group j (0 .. 15) of a Q3_K block, -32 .. 31: bytes 0-7 of the 12 hold the low four bits
// of groups 0-7 and, above them, of 8-15; bytes 8-11 the top two of groups j, j + 4, j + 8, j + 12.
inline int Q3Scale(const uint8_t* block, int j) {
  const uint8_t* p = block + 96;
  const int low = j < 8 ? p[j] & 15 : p[j - 8] >> 4;
  return (low | (p[8 + j % 4] >> 2 * (j / 4) & 3) << 4) - 32;
}

// What the codes of IQ4_NL stand for, and those of MXFP4 (E2M1) times two.
inline constexpr int8_t kIQ4_NLValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kMXFP4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};
// An MXFP4 block's scale byte e is 2^(e - 127) (E8M0); with doubled values, 2^(e - 128).
inline constexpr int kMXFP4Bias = 128;

// Code i (0 .. 31) of 16 bytes: low halves first.
inline int Nibble(const uint8_t* nibbles, int i) {
  return i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
}

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_K_SCALES_H_
