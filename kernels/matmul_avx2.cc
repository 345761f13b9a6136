// Quantised products with AVX2. The layout and the tile follow the repacked kernels of llama.cpp
// and ik_llama.cpp (MIT licence) in spirit: rows interleaved by four columns, so that the byte dot
// product needs no horizontal sums.
#include "kernels/matmul_kernels.h"
#include "kernels/simd_avx2.h"

namespace cairn::kernels {
namespace {

// 16 rows are two vectors of eight. Four tokens x two vectors of 16-bit sums, two vectors of
// weights and a broadcast fit the 16 registers.
constexpr int kTileTokens = 4;

inline __m256i LoadInts(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i LoadInts128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline void StoreInts(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline __m256i Broadcast32(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

#include "kernels/matmul_float.inc"

template <DType type>
struct Expanded {
  using Format = PanelFormat<type>;
  static constexpr int kPairs = Format::kGroups / 2;
  alignas(64) uint8_t q[Format::kUnits][8][64];  // [unit][columns / 4][row][column % 4]
  float d[kPanelRows];
  float m[kPanelRows];
  int16_t scale[kPairs + 1][2][kPanelRows][2];  // group's scale of each row, twice
  int16_t min[kPairs + 1][kPanelRows]
             [2];  // what sums of q are multiplied with: minima, or scales in Q6_K
};

template <int kBits>
inline void ExpandUnit(const uint8_t* src, uint8_t (*q)[64]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 2
  for (int h = 0; h < 64; h += 32) {
    if constexpr (kBits == 8) {
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) StoreInts(q[g] + h, LoadInts(src + g * 64 + h));
      continue;
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const __m256i v = LoadInts(src + c * 64 + h);
      __m256i a = _mm256_and_si256(v, low);
      __m256i b = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
      if constexpr (kBits == 5) {  // bit c, and bit c + 4, to bit 4
        const __m256i bits = LoadInts(src + 256 + h), mask = _mm256_set1_epi8(16);
        a = _mm256_or_si256(a, _mm256_and_si256(_mm256_slli_epi16(bits, 4 - c), mask));
        b = _mm256_or_si256(b, _mm256_and_si256(_mm256_srli_epi16(bits, c), mask));
      }
      if constexpr (kBits == 6) {  // bits 2c, 2c + 1 to bits 4, 5
        const __m256i mask = _mm256_set1_epi8(48);
        __m256i first = LoadInts(src + 256 + h), second = LoadInts(src + 320 + h);
        if (c < 2) {
          first = _mm256_slli_epi16(first, 4 - 2 * c);
          second = _mm256_slli_epi16(second, 4 - 2 * c);
        } else {
          first = _mm256_srli_epi16(first, 2 * c - 4);
          second = _mm256_srli_epi16(second, 2 * c - 4);
        }
        a = _mm256_or_si256(a, _mm256_and_si256(first, mask));
        b = _mm256_or_si256(b, _mm256_and_si256(second, mask));
      }
      StoreInts(q[c] + h, a);
      StoreInts(q[c + 4] + h, b);
    }
  }
}

template <DType type>
inline void ExpandBlock(const uint8_t* src, Expanded<type>* out) {
  using Format = PanelFormat<type>;
#pragma GCC unroll 2
  for (int r = 0; r < kPanelRows; r += 8) {
    Store(out->d + r, _mm256_cvtph_ps(LoadInts128(src + 2 * r)));
    if constexpr (Format::kHasMin) {
      Store(out->m + r, _mm256_cvtph_ps(LoadInts128(src + 2 * (kPanelRows + r))));
    }
  }
  const __m256i even = _mm256_set1_epi32(0x01000100),
                step = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404,
                                         0x08080808, 0x0C0C0C0C);
  const __m256i take_even = _mm256_add_epi8(even, step);
  const __m256i take_odd = _mm256_add_epi8(take_even, _mm256_set1_epi8(2));
  for (int pair = 0; pair < Expanded<type>::kPairs; ++pair) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const int at = pair * 2 * kPanelRows + h * kPanelRows;
      const __m128i bytes = LoadInts128(src + Format::kScaleOffset + at);
      const __m256i both =
          Format::kHasMin ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes);
      StoreInts(out->scale[pair][0][8 * h], _mm256_shuffle_epi8(both, take_even));
      StoreInts(out->scale[pair][1][8 * h], _mm256_shuffle_epi8(both, take_odd));
      StoreInts(out->min[pair][8 * h],
                Format::kHasMin ? _mm256_cvtepu8_epi16(LoadInts128(src + Format::kMinOffset + at))
                                : both);
    }
  }
  for (int u = 0; u < Format::kUnits; ++u) {
    ExpandUnit<Format::kBits>(src + Format::kUnitOffset + u * Format::kUnitBytes, out->q[u]);
  }
}

// Unpacked all the same: two registers a vector leave no room to do it on the way.
template <DType type>
struct PackedBlock : Expanded<type> {
  explicit PackedBlock(const uint8_t* src) { ExpandBlock<type>(src, this); }
};

template <int kTokens>
struct Accumulators {
  Vf v[kTokens][2];

  void Load(const float (*acc)[kPanelRows]) {
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      v[t][0] = kernels::Load(acc[t]);
      v[t][1] = kernels::Load(acc[t] + 8);
    }
  }
  void Store(float (*acc)[kPanelRows]) const {
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      kernels::Store(acc[t], v[t][0]);
      kernels::Store(acc[t] + 8, v[t][1]);
    }
  }
};

// sums[t][h] += multiplier[h] * (columns 4 * kBegin .. 4 * kEnd - 1 of the unit) . x[t], where the
// 16-bit halves of a multiplier are equal. Products of 127 and weights of b bits fit 16 bits in
// pairs up to a sum of 2 * 127 * (2^b - 1) * depth.
template <int kBits, int kBegin, int kEnd, int kTokens>
inline void DotColumns(const uint8_t (*q)[64], const int8_t* const* x, __m256i multiplier0,
                       __m256i multiplier1, __m256i (*sums)[2]) {
  constexpr int kMaxDepth = kBits == 4 ? 8 : kBits == 5 ? 4 : kBits == 6 ? 2 : 1;
  constexpr int kDepth = kMaxDepth < kEnd - kBegin ? kMaxDepth : kEnd - kBegin;
  static_assert((kEnd - kBegin) % kDepth == 0);
#pragma GCC unroll 8
  for (int begin = kBegin; begin < kEnd; begin += kDepth) {
    __m256i acc[kTokens][2];
#pragma GCC unroll 8
    for (int i = 0; i < kDepth; ++i) {
      const int g = begin + i;
      const __m256i w0 = LoadInts(q[g]), w1 = LoadInts(q[g] + 32);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const __m256i b = Broadcast32(x[t] + 4 * g);
        __m256i p0, p1;
        if constexpr (kBits ==
                      8) {  // |w| * (x with the sign of w): the instruction wants one unsigned side
          p0 = _mm256_maddubs_epi16(_mm256_abs_epi8(w0), _mm256_sign_epi8(b, w0));
          p1 = _mm256_maddubs_epi16(_mm256_abs_epi8(w1), _mm256_sign_epi8(b, w1));
        } else {
          p0 = _mm256_maddubs_epi16(w0, b);
          p1 = _mm256_maddubs_epi16(w1, b);
        }
        acc[t][0] = i == 0 ? p0 : _mm256_add_epi16(acc[t][0], p0);
        acc[t][1] = i == 0 ? p1 : _mm256_add_epi16(acc[t][1], p1);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(acc[t][0], multiplier0));
      sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(acc[t][1], multiplier1));
    }
  }
}

// acc += d * dx * sums.
template <int kTokens>
inline void AddDots(const float* d, const float* dx, int64_t dx_stride, __m256i (*sums)[2],
                    Accumulators<kTokens>* acc) {
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    const Vf scale = Set1(dx[t * dx_stride]);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      acc->v[t][h] = Fma(Mul(Load(d + 8 * h), scale), _mm256_cvtepi32_ps(sums[t][h]), acc->v[t][h]);
    }
  }
}

template <DType type, int kTokens>
inline void DotBlock(const Expanded<type>& block, const RoundedInput& in, int64_t cols,
                     int64_t index, int64_t token, Accumulators<kTokens>* acc) {
  using Format = PanelFormat<type>;
  const int64_t blocks = cols / Format::kBlockCols;
  const float* dx = in.d + token * blocks + index;
  const int8_t* x[kTokens];
  __m256i sums[kTokens][2];
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    x[t] = in.q + (token + t) * cols + index * Format::kBlockCols;
    sums[t][0] = sums[t][1] = _mm256_setzero_si256();
  }
  if constexpr (!Format::kIsK) {
    const int32_t* sx = in.sums + token * blocks + index;
    const __m256i ones = _mm256_set1_epi16(1);
    DotColumns<Format::kBits, 0, 8, kTokens>(block.q[0], x, ones, ones, sums);
    if constexpr (Format::kOffset != 0) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const __m256i offset = _mm256_set1_epi32(Format::kOffset * sx[t * blocks]);
        sums[t][0] = _mm256_sub_epi32(sums[t][0], offset);
        sums[t][1] = _mm256_sub_epi32(sums[t][1], offset);
      }
    }
    AddDots<kTokens>(block.d, dx, blocks, sums, acc);
    if constexpr (Format::kHasMin) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const Vf sum = Set1(static_cast<float>(sx[t * blocks]) * dx[t * blocks]);
        acc->v[t][0] = Fma(Load(block.m), sum, acc->v[t][0]);
        acc->v[t][1] = Fma(Load(block.m + 8), sum, acc->v[t][1]);
      }
    }
  } else {
    for (int u = 0; u < Format::kUnits; ++u) {
      if constexpr (Format::kGroups == 16) {
        DotColumns<Format::kBits, 0, 4, kTokens>(block.q[u], x, LoadInts(block.scale[u][0][0]),
                                                 LoadInts(block.scale[u][0][8]), sums);
        DotColumns<Format::kBits, 4, 8, kTokens>(block.q[u], x, LoadInts(block.scale[u][1][0]),
                                                 LoadInts(block.scale[u][1][8]), sums);
      } else {
        DotColumns<Format::kBits, 0, 8, kTokens>(block.q[u], x,
                                                 LoadInts(block.scale[u / 2][u % 2][0]),
                                                 LoadInts(block.scale[u / 2][u % 2][8]), sums);
      }
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) x[t] += kUnitCols;
    }
    const int16_t* sx = Format::kGroups == 16 ? in.sums16 : in.sums32;
    sx += token * blocks * Format::kGroups + index * Format::kGroups;
    __m256i mins[kTokens][2];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      mins[t][0] = mins[t][1] = _mm256_setzero_si256();
      for (int pair = 0; pair < Format::kGroups / 2; ++pair) {
        const __m256i b = Broadcast32(sx + t * blocks * Format::kGroups + 2 * pair);
        for (int h = 0; h < 2; ++h) {
          mins[t][h] =
              _mm256_add_epi32(mins[t][h], _mm256_madd_epi16(LoadInts(block.min[pair][8 * h]), b));
        }
      }
      if constexpr (!Format::kHasMin) {
        static_assert(Format::kHasMin || Format::kOffset == 32);
        sums[t][0] = _mm256_sub_epi32(sums[t][0], _mm256_slli_epi32(mins[t][0], 5));
        sums[t][1] = _mm256_sub_epi32(sums[t][1], _mm256_slli_epi32(mins[t][1], 5));
      }
    }
    AddDots<kTokens>(block.d, dx, blocks, sums, acc);
    if constexpr (Format::kHasMin) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const Vf scale = Set1(dx[t * blocks]);
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          acc->v[t][h] =
              Fnma(Mul(Load(block.m + 8 * h), scale), _mm256_cvtepi32_ps(mins[t][h]), acc->v[t][h]);
        }
      }
    }
  }
}

#include "kernels/matmul_quantised.inc"

// Rounds 32 values; returns them as bytes.
inline __m256i RoundVector(const float* x, Vf inverse) {
  __m256i v[4];
  for (int i = 0; i < 4; ++i) v[i] = _mm256_cvtps_epi32(Mul(Load(x + 8 * i), inverse));
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Sums of the two halves of 32 bytes.
inline void HalfSums(__m256i q, int* first, int* second) {
  const __m256i ones8 = _mm256_set1_epi8(1), ones16 = _mm256_set1_epi16(1);
  __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(ones8, q), ones16);
  s = _mm256_hadd_epi32(s, s);
  s = _mm256_hadd_epi32(s, s);
  *first = _mm256_extract_epi32(s, 0);
  *second = _mm256_extract_epi32(s, 4);
}

// As in matmul_ref.cc: the same operations, so the same bytes.
inline float Inverse(const float* x, int count, float* d) {
  Vf amax = Zero();
  for (int i = 0; i < count; i += 8) amax = Max(amax, Abs(Load(x + i)));
  const float m = ReduceMax(amax);
  *d = m < 1e-30f ? 0.0f : m / 127.0f;
  return m < 1e-30f ? 0.0f : 127.0f / m;
}

}  // namespace

void RoundRowAvx2(const float* x, int64_t cols, int8_t* q, float* d, int32_t* sums) {
  for (int64_t i = 0; i < cols / 32; ++i) {
    const __m256i bytes = RoundVector(x + 32 * i, Set1(Inverse(x + 32 * i, 32, d + i)));
    StoreInts(q + 32 * i, bytes);
    int first, second;
    HalfSums(bytes, &first, &second);
    sums[i] = first + second;
  }
}

void RoundRowKAvx2(const float* x, int64_t cols, int8_t* q, float* d, int16_t* sums16,
                   int16_t* sums32) {
  for (int64_t block = 0; block < cols / 256; ++block) {
    const Vf inverse = Set1(Inverse(x + 256 * block, 256, d + block));
    for (int64_t i = 8 * block; i < 8 * block + 8; ++i) {
      const __m256i bytes = RoundVector(x + 32 * i, inverse);
      StoreInts(q + 32 * i, bytes);
      int first, second;
      HalfSums(bytes, &first, &second);
      sums16[2 * i] = static_cast<int16_t>(first);
      sums16[2 * i + 1] = static_cast<int16_t>(second);
      sums32[i] = static_cast<int16_t>(first + second);
    }
  }
}

const MatMulKernels kMatMulAvx2 = {RoundRowAvx2, RoundRowKAvx2, Multiply, kMaxTokens, nullptr};

}  // namespace cairn::kernels
