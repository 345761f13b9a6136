// Block layouts as in ggml's ggml-common.h (MIT licence), little endian.
#include <bit>
#include <cmath>
#include <cstring>

#include "common/check.h"
#include "kernels/half.h"
#include "kernels/k_scales.h"
#include "kernels/matmul.h"

namespace cairn::kernels {
namespace {

// {F16 d, [F16 m], [32 high bits], 16 bytes: low nibbles are weights 0-15, high nibbles 16-31}.
template <bool kHasMin, bool kHasHighBit, int kOffset>
void Block32(const uint8_t* b, float* y) {
  const float d = LoadHalf(b);
  const float m = kHasMin ? LoadHalf(b + 2) : 0.0f;
  const uint8_t* nibbles = b + (kHasMin ? 4 : 2);
  uint32_t high = 0;
  if (kHasHighBit) {
    std::memcpy(&high, nibbles, 4);
    nibbles += 4;
  }
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    const int q = (low | static_cast<int>(high >> i & 1) << 4) - kOffset;
    y[i] = static_cast<float>(q) * d + m;
  }
}

void BlockQ8_0(const uint8_t* b, float* y) {
  const float d = LoadHalf(b);
  for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(static_cast<int8_t>(b[2 + i])) * d;
}

// {F16 d, F16 dmin, 12 bytes of scales, [32 bytes of high bits], 128 bytes of nibbles}: 8 groups
// of 32.
template <bool kHasHighBit>
void BlockK45(const uint8_t* b, float* y) {
  const float d = LoadHalf(b);
  const float dmin = LoadHalf(b + 2);
  const uint8_t* high = b + 16;
  const uint8_t* nibbles = b + (kHasHighBit ? 48 : 16);
  for (int j = 0; j < 8; ++j) {
    const KScale s = GetKScale(b + 4, j);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = nibbles[j / 2 * 32 + i];
      int q = j % 2 == 0 ? byte & 15 : byte >> 4;
      if (kHasHighBit) q |= (high[i] >> j & 1) << 4;
      y[j * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

// {128 bytes of low nibbles, 64 bytes of high pairs, 16 int8 scales, F16 d}: 16 groups of 16.
void BlockQ6_K(const uint8_t* b, float* y) {
  const float d = LoadHalf(b + 208);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + i / 16]));
    y[i] = scale * static_cast<float>(Q6Weight(b, i) - 32);
  }
}

// {16 bytes: low half scale, high half minimum; 64 bytes of pairs; F16 d, F16 dmin}: 16 groups
// of 16.
void BlockQ2_K(const uint8_t* b, float* y) {
  const float d = LoadHalf(b + 80);
  const float dmin = LoadHalf(b + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(b[i / 16] & 15);
    const float min = dmin * static_cast<float>(b[i / 16] >> 4);
    y[i] = scale * static_cast<float>(Pair(b + 16, i)) - min;
  }
}

// {32 bytes of high bits, 64 bytes of pairs, 12 bytes of scales, F16 d}: 16 groups of 16.
void BlockQ3_K(const uint8_t* b, float* y) {
  const float d = LoadHalf(b + 108);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(Q3Scale(b, i / 16));
    y[i] = scale * static_cast<float>(Q3Weight(b, i) - 4);
  }
}

// {F16 d, 16 bytes of codes}.
void BlockIQ4_NL(const uint8_t* b, float* y) {
  const float d = LoadHalf(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(kIQ4_NLValues[Nibble(b + 2, i)]);
}

// {E8M0 scale, 16 bytes of E2M1 codes}.
void BlockMXFP4(const uint8_t* b, float* y) {
  const float d = std::ldexp(1.0f, b[0] - kMXFP4Bias);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(kMXFP4Values[Nibble(b + 1, i)]);
}

template <int kElements, typename Block>
void ForBlocks(const uint8_t* src, int64_t n, int bytes, float* dst, Block block) {
  for (int64_t i = 0; i < n; i += kElements, src += bytes) block(src, dst + i);
}

}  // namespace

void DequantizeRow(DType type, const uint8_t* src, int64_t n, float* dst) {
  const DTypeInfo& info = Info(type);
  CAIRN_CHECK(n >= 0 && n % info.block_elements == 0);
  switch (type) {
    case DType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) dst[i] = LoadHalf(src + 2 * i);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) {
        uint16_t bits;
        std::memcpy(&bits, src + 2 * i, 2);
        dst[i] = std::bit_cast<float>(uint32_t{bits} << 16);
      }
      return;
    case DType::kQ4_0:
      return ForBlocks<32>(src, n, info.block_bytes, dst, Block32<false, false, 8>);
    case DType::kQ4_1:
      return ForBlocks<32>(src, n, info.block_bytes, dst, Block32<true, false, 0>);
    case DType::kQ5_0:
      return ForBlocks<32>(src, n, info.block_bytes, dst, Block32<false, true, 16>);
    case DType::kQ5_1:
      return ForBlocks<32>(src, n, info.block_bytes, dst, Block32<true, true, 0>);
    case DType::kQ8_0:
      return ForBlocks<32>(src, n, info.block_bytes, dst, BlockQ8_0);
    case DType::kQ4_K:
      return ForBlocks<256>(src, n, info.block_bytes, dst, BlockK45<false>);
    case DType::kQ5_K:
      return ForBlocks<256>(src, n, info.block_bytes, dst, BlockK45<true>);
    case DType::kQ6_K:
      return ForBlocks<256>(src, n, info.block_bytes, dst, BlockQ6_K);
    case DType::kQ2_K:
      return ForBlocks<256>(src, n, info.block_bytes, dst, BlockQ2_K);
    case DType::kQ3_K:
      return ForBlocks<256>(src, n, info.block_bytes, dst, BlockQ3_K);
    case DType::kIQ4_NL:
      return ForBlocks<32>(src, n, info.block_bytes, dst, BlockIQ4_NL);
    case DType::kMXFP4:
      return ForBlocks<32>(src, n, info.block_bytes, dst, BlockMXFP4);
  }
  CAIRN_CHECK(false && "unknown dtype");
}

}  // namespace cairn::kernels
