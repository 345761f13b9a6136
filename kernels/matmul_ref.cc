// Plain loops over the packed layout: the definition of right for the other instruction sets.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/check.h"
#include "kernels/half.h"
#include "kernels/matmul_kernels.h"

namespace cairn::kernels {
namespace {

// A row below this magnitude counts as zero, so that 127 / amax stays finite.
constexpr float kTiny = 1e-30f;

// q = x * 127 / amax rounded to even; returns amax / 127.
float RoundBlock(const float* x, int count, int8_t* q) {
  float amax = 0;
  for (int i = 0; i < count; ++i) amax = std::max(amax, std::fabs(x[i]));
  if (amax < kTiny) {
    std::memset(q, 0, count);
    return 0;
  }
  const float inverse = 127.0f / amax;
  for (int i = 0; i < count; ++i) q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
  return amax / 127.0f;
}

int Sum(const int8_t* q, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += q[i];
  return sum;
}

// Stored integer of column `col` (0 .. 31) of a unit.
template <int kBits>
int Weight(const uint8_t* unit, int row, int col) {
  const int g = col / 4, at = row * 4 + col % 4;
  constexpr int kVector = kPanelRows * 4;
  if constexpr (kBits == 8) return static_cast<int8_t>(unit[g * kVector + at]);
  const uint8_t byte = unit[g % 4 * kVector + at];
  int q = g < 4 ? byte & 15 : byte >> 4;
  const uint8_t* high = unit + 4 * kVector;
  if constexpr (kBits == 5) q |= (high[at] >> g & 1) << 4;
  if constexpr (kBits == 6) q |= (high[g / 4 * kVector + at] >> 2 * (g % 4) & 3) << 4;
  return q;
}

template <int kBits>
int32_t Dot(const uint8_t* unit, int row, const int8_t* q, int begin, int end) {
  int32_t sum = 0;
  for (int col = begin; col < end; ++col) sum += Weight<kBits>(unit, row, col) * q[col];
  return sum;
}

template <DType type>
float RowTimesInput(const uint8_t* panel, int row, int64_t cols, const RoundedInput& in,
                    int64_t token) {
  using Format = PanelFormat<type>;
  const int64_t blocks = cols / Format::kBlockCols;
  const int8_t* q = in.q + token * cols;
  float acc = 0;
  for (int64_t i = 0; i < blocks; ++i, panel += Format::kBlockBytes, q += Format::kBlockCols) {
    const float dx = in.d[token * blocks + i];
    const float d = LoadHalf(panel + row * 2) * dx;
    const float m = Format::kHasMin ? LoadHalf(panel + (kPanelRows + row) * 2) * dx : 0.0f;
    const uint8_t* units = panel + Format::kUnitOffset;
    if constexpr (!Format::kIsK) {
      const int32_t sum = in.sums[token * blocks + i];
      const int32_t dot = Dot<Format::kBits>(units, row, q, 0, 32) - Format::kOffset * sum;
      acc += d * static_cast<float>(dot);
      if constexpr (Format::kHasMin) acc += m * static_cast<float>(sum);
    } else {
      constexpr int kGroupCols = 256 / Format::kGroups;
      const int16_t* sums = kGroupCols == 16 ? in.sums16 + token * cols / 16 + i * 16
                                             : in.sums32 + token * cols / 32 + i * 8;
      int32_t dot = 0, min_dot = 0;
      for (int s = 0; s < Format::kGroups; ++s) {
        const int at = s / 2 * kPanelRows * 2 + row * 2 + s % 2;
        const uint8_t* unit = units + s * kGroupCols / 32 * Format::kUnitBytes;
        const int begin = s * kGroupCols % 32;
        const int32_t part =
            Dot<Format::kBits>(unit, row, q + s * kGroupCols / 32 * 32, begin, begin + kGroupCols);
        const int scale = Format::kHasMin ? panel[Format::kScaleOffset + at]
                                          : static_cast<int8_t>(panel[Format::kScaleOffset + at]);
        dot += scale * (part - Format::kOffset * sums[s]);
        if constexpr (Format::kHasMin) min_dot += panel[Format::kMinOffset + at] * sums[s];
      }
      acc += d * static_cast<float>(dot);
      if constexpr (Format::kHasMin) acc -= m * static_cast<float>(min_dot);
    }
  }
  return acc;
}

template <DType type>
void MultiplyQuantised(const MatMulPart& p) {
  using Format = PanelFormat<type>;
  const int64_t panel_bytes = p.w.cols / Format::kBlockCols * Format::kBlockBytes;
  const int64_t row_end = std::min(p.panel_end * kPanelRows, p.w.rows);
  for (int64_t row = p.panel_begin * kPanelRows; row < row_end; ++row) {
    const uint8_t* panel = p.w.data + row / kPanelRows * panel_bytes;
    for (int64_t t = p.token_begin; t < p.token_end; ++t) {
      const float dot = RowTimesInput<type>(panel, row % kPanelRows, p.w.cols, p.in.q, t);
      p.y[t * p.y_stride + row] = dot + (p.bias == nullptr ? 0.0f : p.bias[row]);
    }
  }
}

template <DType type>
float LoadWeight(const uint8_t* row, int64_t col) {
  if constexpr (type == DType::kF16) return LoadHalf(row + 2 * col);
  if constexpr (type == DType::kBF16) {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * col, 2);
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  float w;
  std::memcpy(&w, row + 4 * col, 4);
  return w;
}

template <DType type>
void MultiplyFloat(const MatMulPart& p) {
  const int64_t row_bytes = p.w.cols * (type == DType::kF32 ? 4 : 2);
  const int64_t row_end = std::min(p.panel_end * kPanelRows, p.w.rows);
  for (int64_t row = p.panel_begin * kPanelRows; row < row_end; ++row) {
    const uint8_t* w = p.w.data + row * row_bytes;
    for (int64_t t = p.token_begin; t < p.token_end; ++t) {
      const float* x = p.in.x + t * p.in.stride;
      float acc = 0;
      for (int64_t col = 0; col < p.w.cols; ++col) acc += LoadWeight<type>(w, col) * x[col];
      p.y[t * p.y_stride + row] = acc + (p.bias == nullptr ? 0.0f : p.bias[row]);
    }
  }
}

void Multiply(const MatMulPart& part) {
  switch (part.w.type) {
    case DType::kF32:
      return MultiplyFloat<DType::kF32>(part);
    case DType::kF16:
      return MultiplyFloat<DType::kF16>(part);
    case DType::kBF16:
      return MultiplyFloat<DType::kBF16>(part);
    case DType::kQ4_0:
      return MultiplyQuantised<DType::kQ4_0>(part);
    case DType::kQ4_1:
      return MultiplyQuantised<DType::kQ4_1>(part);
    case DType::kQ5_0:
      return MultiplyQuantised<DType::kQ5_0>(part);
    case DType::kQ5_1:
      return MultiplyQuantised<DType::kQ5_1>(part);
    case DType::kQ8_0:
      return MultiplyQuantised<DType::kQ8_0>(part);
    case DType::kQ4_K:
      return MultiplyQuantised<DType::kQ4_K>(part);
    case DType::kQ5_K:
      return MultiplyQuantised<DType::kQ5_K>(part);
    case DType::kQ6_K:
      return MultiplyQuantised<DType::kQ6_K>(part);
    case DType::kQ2_K:
      return MultiplyQuantised<DType::kQ2_K>(part);
    case DType::kQ3_K:
    case DType::kIQ4_NL:
    case DType::kMXFP4:
      break;  // packed as another type
  }
  CAIRN_CHECK(false && "unknown dtype");
}

}  // namespace

void RoundRowScalar(const float* x, int64_t cols, int8_t* q, float* d, int32_t* sums) {
  for (int64_t i = 0; i < cols / 32; ++i) {
    d[i] = RoundBlock(x + 32 * i, 32, q + 32 * i);
    sums[i] = Sum(q + 32 * i, 32);
  }
}

void RoundRowKScalar(const float* x, int64_t cols, int8_t* q, float* d, int16_t* sums16,
                     int16_t* sums32) {
  for (int64_t i = 0; i < cols / 256; ++i) d[i] = RoundBlock(x + 256 * i, 256, q + 256 * i);
  for (int64_t i = 0; i < cols / 16; ++i) sums16[i] = static_cast<int16_t>(Sum(q + 16 * i, 16));
  for (int64_t i = 0; i < cols / 32; ++i)
    sums32[i] = static_cast<int16_t>(sums16[2 * i] + sums16[2 * i + 1]);
}

const MatMulKernels kMatMulScalar = {RoundRowScalar, RoundRowKScalar, Multiply, kMaxTokens,
                                     nullptr};

}  // namespace cairn::kernels
