// Quantised products with AVX-512 VNNI: 16 rows are one vector, and one instruction adds four
// columns of each.
#include "kernels/matmul_kernels.h"
#include "kernels/simd_avx512.h"

namespace cairn::kernels {
namespace {

// Eight chains hide the latency of the dot product (5 cycles, up to 2 units); with as many F32 sums
// they take half of the 32 registers. The broadcast of x is part of the instruction.
constexpr int kTileTokens = 8;

inline __m512i Broadcast32(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

#include "kernels/matmul_float.inc"
#include "kernels/matmul_unpack_avx512.inc"

template <DType type>
struct Expanded {
  using Format = PanelFormat<type>;
  static constexpr int kPairs = Format::kGroups / 2;
  // The instruction wants unsigned weights, so signed bytes are stored plus 128.
  static constexpr int kOffset = Format::kBits == 8 ? 128 : Format::kOffset;
  alignas(64) uint8_t q[Format::kUnits][8][64];  // [unit][columns / 4][row][column % 4]
  float d[kPanelRows];
  float m[kPanelRows];
  int32_t scale[kPairs + 1][2][kPanelRows];
  int16_t min[kPairs + 1][kPanelRows]
             [2];  // what sums of q are multiplied with: minima, or scales in Q6_K
};

template <DType type>
inline void ExpandBlock(const uint8_t* src, Expanded<type>* out) {
  using Format = PanelFormat<type>;
  Store(out->d, _mm512_cvtph_ps(LoadInts256(src)));
  if constexpr (Format::kHasMin) Store(out->m, _mm512_cvtph_ps(LoadInts256(src + 2 * kPanelRows)));
  for (int pair = 0; pair < Expanded<type>::kPairs; ++pair) {
    const int at = pair * 2 * kPanelRows;
    const __m256i bytes = LoadInts256(src + Format::kScaleOffset + at);
    const __m512i both =
        Format::kHasMin ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
    StoreInts(out->scale[pair][0], _mm512_srai_epi32(_mm512_slli_epi32(both, 16), 16));
    StoreInts(out->scale[pair][1], _mm512_srai_epi32(both, 16));
    StoreInts(out->min[pair], Format::kHasMin
                                  ? _mm512_cvtepu8_epi16(LoadInts256(src + Format::kMinOffset + at))
                                  : both);
  }
  for (int u = 0; u < Format::kUnits; ++u) {
    ExpandUnit<Format::kBits, 128>(src + Format::kUnitOffset + u * Format::kUnitBytes, out->q[u]);
  }
}

template <int kTokens>
struct Accumulators {
  Vf v[kTokens];

  void Load(const float (*acc)[kPanelRows]) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) v[t] = kernels::Load(acc[t]);
  }
  void Store(float (*acc)[kPanelRows]) const {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) kernels::Store(acc[t], v[t]);
  }
};

// sums[t] = (columns 4 * kBegin .. 4 * kEnd - 1 of the unit) . x[t].
template <int kBegin, int kEnd, int kTokens>
inline void DotColumns(const uint8_t (*q)[64], const int8_t* const* x, __m512i* sums) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) sums[t] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int g = kBegin; g < kEnd; ++g) {
    const __m512i w = LoadInts(q[g]);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = _mm512_dpbusd_epi32(sums[t], w, Broadcast32(x[t] + 4 * g));
    }
  }
}

// acc += d * dx * sums.
template <int kTokens>
inline void AddDots(const float* d, const float* dx, int64_t dx_stride, const __m512i* sums,
                    Accumulators<kTokens>* acc) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const Vf scale = Mul(Load(d), Set1(dx[t * dx_stride]));
    acc->v[t] = Fma(scale, _mm512_cvtepi32_ps(sums[t]), acc->v[t]);
  }
}

// A block of 32 columns with one F32 scale.
template <DType type, int kTokens>
inline void DotBlock32(const Expanded<type>& block, const RoundedInput& in, int64_t cols,
                       int64_t index, int64_t token, Accumulators<kTokens>* acc) {
  const int64_t blocks = cols / 32;
  const float* dx = in.d + token * blocks + index;
  const int32_t* sx = in.sums + token * blocks + index;
  const int8_t* x[kTokens];
  __m512i sums[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) x[t] = in.q + (token + t) * cols + index * 32;
  DotColumns<0, 8, kTokens>(block.q[0], x, sums);
  if constexpr (Expanded<type>::kOffset != 0) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      sums[t] =
          _mm512_sub_epi32(sums[t], _mm512_set1_epi32(Expanded<type>::kOffset * sx[t * blocks]));
    }
  }
  AddDots<kTokens>(block.d, dx, blocks, sums, acc);
  if constexpr (PanelFormat<type>::kHasMin) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Vf sum = Set1(static_cast<float>(sx[t * blocks]) * dx[t * blocks]);
      acc->v[t] = Fma(Load(block.m), sum, acc->v[t]);
    }
  }
}

// A block of 256 columns with integer scales of its groups.
template <DType type, int kTokens>
inline void DotBlock256(const Expanded<type>& block, const RoundedInput& in, int64_t cols,
                        int64_t index, int64_t token, Accumulators<kTokens>* acc) {
  using Format = PanelFormat<type>;
  const int64_t blocks = cols / 256;
  const float* dx = in.d + token * blocks + index;
  const int8_t* x[kTokens];
  __m512i sums[kTokens], part[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    x[t] = in.q + (token + t) * cols + index * 256;
    sums[t] = _mm512_setzero_si512();
  }
  const auto add_part = [&](const int32_t* scale) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = _mm512_add_epi32(sums[t], _mm512_mullo_epi32(part[t], LoadInts(scale)));
    }
  };
  for (int u = 0; u < Format::kUnits; ++u) {
    if constexpr (Format::kGroups == 16) {
      DotColumns<0, 4, kTokens>(block.q[u], x, part);
      add_part(block.scale[u][0]);
      DotColumns<4, 8, kTokens>(block.q[u], x, part);
      add_part(block.scale[u][1]);
    } else {
      DotColumns<0, 8, kTokens>(block.q[u], x, part);
      add_part(block.scale[u / 2][u % 2]);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) x[t] += kUnitCols;
  }
  const int16_t* sx = Format::kGroups == 16 ? in.sums16 : in.sums32;
  sx += (token * blocks + index) * Format::kGroups;
  __m512i mins[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    mins[t] = _mm512_setzero_si512();
    for (int pair = 0; pair < Format::kGroups / 2; ++pair) {
      const __m512i b = Broadcast32(sx + t * blocks * Format::kGroups + 2 * pair);
      mins[t] = _mm512_add_epi32(mins[t], _mm512_madd_epi16(LoadInts(block.min[pair]), b));
    }
    if constexpr (!Format::kHasMin) {
      static_assert(Format::kHasMin || Format::kOffset == 32);
      sums[t] = _mm512_sub_epi32(sums[t], _mm512_slli_epi32(mins[t], 5));
    }
  }
  AddDots<kTokens>(block.d, dx, blocks, sums, acc);
  if constexpr (Format::kHasMin) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Vf scale = Mul(Load(block.m), Set1(dx[t * blocks]));
      acc->v[t] = Fnma(scale, _mm512_cvtepi32_ps(mins[t]), acc->v[t]);
    }
  }
}

template <DType type, int kTokens>
inline void DotBlock(const Expanded<type>& block, const RoundedInput& in, int64_t cols,
                     int64_t index, int64_t token, Accumulators<kTokens>* acc) {
  if constexpr (PanelFormat<type>::kIsK) {
    DotBlock256<type, kTokens>(block, in, cols, index, token, acc);
  } else {
    DotBlock32<type, kTokens>(block, in, cols, index, token, acc);
  }
}

#include "kernels/matmul_quantised.inc"

}  // namespace

const MatMulKernels kMatMulAvx512 = {RoundRowAvx2, RoundRowKAvx2, Multiply, kMaxTokens, nullptr};

}  // namespace cairn::kernels
