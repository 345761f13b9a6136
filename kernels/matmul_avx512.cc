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

// A panel block as it lies in memory. Its parts are unpacked into registers as they are asked for.
template <DType type>
struct PackedBlock {
  using Format = PanelFormat<type>;
  // The instruction wants unsigned weights, so signed bytes are stored plus 128.
  static constexpr int kOffset = Format::kBits == 8 ? 128 : Format::kOffset;
  struct Unit {
    __m512i q[8];
    __m512i operator[](int g) const { return q[g]; }  // columns 4g .. 4g + 3
  };

  const uint8_t* src;

  Vf d() const { return _mm512_cvtph_ps(LoadInts256(src)); }
  Vf m() const { return _mm512_cvtph_ps(LoadInts256(src + 2 * kPanelRows)); }
  Unit unit(int u) const {
    Unit unit;
    UnpackUnit<Format::kBits, 128>(src + Format::kUnitOffset + u * Format::kUnitBytes, unit.q);
    return unit;
  }
  // Scales of two groups, 16 bits each.
  __m512i scales(int pair) const {
    const __m256i bytes = LoadInts256(src + Format::kScaleOffset + pair * 2 * kPanelRows);
    return Format::kHasMin ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
  }
  __m512i scale(int group) const {
    const __m512i both = scales(group / 2);
    return _mm512_srai_epi32(group % 2 == 0 ? _mm512_slli_epi32(both, 16) : both, 16);
  }
  // What sums of q are multiplied with: minima, or scales in Q6_K.
  __m512i mins(int pair) const {
    if constexpr (!Format::kHasMin) return scales(pair);
    return _mm512_cvtepu8_epi16(LoadInts256(src + Format::kMinOffset + pair * 2 * kPanelRows));
  }
};

// The same, unpacked once for many rows of x.
template <DType type>
struct Expanded {
  using Format = PanelFormat<type>;
  static constexpr int kPairs = Format::kGroups / 2;
  struct Unit {
    const uint8_t (*q)[64];
    __m512i operator[](int g) const { return LoadInts(q[g]); }
  };

  alignas(64) uint8_t q[Format::kUnits][8][64];  // [unit][columns / 4][row][column % 4]
  float d_[kPanelRows];
  float m_[kPanelRows];
  int32_t scale_[kPairs + 1][2][kPanelRows];
  int16_t mins_[kPairs + 1][kPanelRows][2];

  Vf d() const { return Load(d_); }
  Vf m() const { return Load(m_); }
  Unit unit(int u) const { return {q[u]}; }
  __m512i scale(int group) const { return LoadInts(scale_[group / 2][group % 2]); }
  __m512i mins(int pair) const { return LoadInts(mins_[pair]); }
};

template <DType type>
inline void ExpandBlock(const uint8_t* src, Expanded<type>* out) {
  using Format = PanelFormat<type>;
  const PackedBlock<type> block = {src};
  Store(out->d_, block.d());
  if constexpr (Format::kHasMin) Store(out->m_, block.m());
  for (int pair = 0; pair < Expanded<type>::kPairs; ++pair) {
    StoreInts(out->scale_[pair][0], block.scale(2 * pair));
    StoreInts(out->scale_[pair][1], block.scale(2 * pair + 1));
    StoreInts(out->mins_[pair], block.mins(pair));
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
template <int kBegin, int kEnd, int kTokens, typename Unit>
inline void DotColumns(const Unit& unit, const int8_t* const* x, __m512i* sums) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) sums[t] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int g = kBegin; g < kEnd; ++g) {
    const __m512i w = unit[g];
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = _mm512_dpbusd_epi32(sums[t], w, Broadcast32(x[t] + 4 * g));
    }
  }
}

// acc += d * dx * sums.
template <int kTokens>
inline void AddDots(Vf d, const float* dx, int64_t dx_stride, const __m512i* sums,
                    Accumulators<kTokens>* acc) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const Vf scale = Mul(d, Set1(dx[t * dx_stride]));
    acc->v[t] = Fma(scale, _mm512_cvtepi32_ps(sums[t]), acc->v[t]);
  }
}

// A block of 32 columns with one F32 scale.
template <DType type, int kTokens, typename Block>
inline void DotBlock32(const Block& block, const RoundedInput& in, int64_t cols, int64_t index,
                       int64_t token, Accumulators<kTokens>* acc) {
  const int64_t blocks = cols / 32;
  const float* dx = in.d + token * blocks + index;
  const int32_t* sx = in.sums + token * blocks + index;
  const int8_t* x[kTokens];
  __m512i sums[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) x[t] = in.q + (token + t) * cols + index * 32;
  DotColumns<0, 8, kTokens>(block.unit(0), x, sums);
  constexpr int kOffset = PackedBlock<type>::kOffset;
  if constexpr (kOffset != 0) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = _mm512_sub_epi32(sums[t], _mm512_set1_epi32(kOffset * sx[t * blocks]));
    }
  }
  AddDots<kTokens>(block.d(), dx, blocks, sums, acc);
  if constexpr (PanelFormat<type>::kHasMin) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Vf sum = Set1(static_cast<float>(sx[t * blocks]) * dx[t * blocks]);
      acc->v[t] = Fma(block.m(), sum, acc->v[t]);
    }
  }
}

// A block of 256 columns with integer scales of its groups.
template <DType type, int kTokens, typename Block>
inline void DotBlock256(const Block& block, const RoundedInput& in, int64_t cols, int64_t index,
                        int64_t token, Accumulators<kTokens>* acc) {
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
  const auto add_part = [&](__m512i scale) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      sums[t] = _mm512_add_epi32(sums[t], _mm512_mullo_epi32(part[t], scale));
    }
  };
  for (int u = 0; u < Format::kUnits; ++u) {
    const auto unit = block.unit(u);
    if constexpr (Format::kGroups == 16) {
      DotColumns<0, 4, kTokens>(unit, x, part);
      add_part(block.scale(2 * u));
      DotColumns<4, 8, kTokens>(unit, x, part);
      add_part(block.scale(2 * u + 1));
    } else {
      DotColumns<0, 8, kTokens>(unit, x, part);
      add_part(block.scale(u));
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
      mins[t] = _mm512_add_epi32(mins[t], _mm512_madd_epi16(block.mins(pair), b));
    }
    if constexpr (!Format::kHasMin) {
      static_assert(Format::kHasMin || Format::kOffset == 32);
      sums[t] = _mm512_sub_epi32(sums[t], _mm512_slli_epi32(mins[t], 5));
    }
  }
  AddDots<kTokens>(block.d(), dx, blocks, sums, acc);
  if constexpr (Format::kHasMin) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Vf scale = Mul(block.m(), Set1(dx[t * blocks]));
      acc->v[t] = Fnma(scale, _mm512_cvtepi32_ps(mins[t]), acc->v[t]);
    }
  }
}

template <DType type, int kTokens, typename Block>
inline void DotBlock(const Block& block, const RoundedInput& in, int64_t cols, int64_t index,
                     int64_t token, Accumulators<kTokens>* acc) {
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
