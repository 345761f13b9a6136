// F32 vectors of 16 lanes, for the *.inc files of this folder; the AVX-512 twin of simd_avx2.h.
// Only for files compiled with AVX-512 F, BW, DQ, VL and VNNI, or, in tests, with their emulation.
#ifndef CAIRN_KERNELS_SIMD_AVX512_H_
#define CAIRN_KERNELS_SIMD_AVX512_H_

#ifdef CAIRN_EMULATE_AVX512
#include "kernels/testing/emulated_avx512.h"
#else
#include <immintrin.h>
#endif

#include <cstdint>

namespace cairn::kernels {
namespace {

using Vf = __m512;
constexpr int kLanes = 16;

inline Vf Zero() { return _mm512_setzero_ps(); }
inline Vf Set1(float x) { return _mm512_set1_ps(x); }
inline Vf Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, Vf v) { _mm512_storeu_ps(p, v); }
inline Vf Add(Vf a, Vf b) { return _mm512_add_ps(a, b); }
inline Vf Sub(Vf a, Vf b) { return _mm512_sub_ps(a, b); }
inline Vf Mul(Vf a, Vf b) { return _mm512_mul_ps(a, b); }
inline Vf Div(Vf a, Vf b) { return _mm512_div_ps(a, b); }
inline Vf Max(Vf a, Vf b) { return _mm512_max_ps(a, b); }
inline Vf Min(Vf a, Vf b) { return _mm512_min_ps(a, b); }
inline Vf Fma(Vf a, Vf b, Vf c) { return _mm512_fmadd_ps(a, b, c); }    // a * b + c
inline Vf Fnma(Vf a, Vf b, Vf c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
inline Vf Abs(Vf a) { return _mm512_abs_ps(a); }
inline Vf RoundToInt(Vf a) { return _mm512_roundscale_ps(a, 8); }  // to nearest even, no exceptions
// 2^n for integral n in [-126, 127].
inline Vf Exp2Int(Vf n) {
  const __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
}
// a where x < y, else b.
inline Vf SelectLess(Vf x, Vf y, Vf a, Vf b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}

// The first `count` (0 .. 16) lanes; the others are 0.
inline __mmask16 FirstLanes(int count) { return static_cast<__mmask16>((1u << count) - 1); }
inline Vf LoadFirst(const float* p, int count) {
  return _mm512_maskz_loadu_ps(FirstLanes(count), p);
}
inline void StoreFirst(float* p, int count, Vf v) {
  _mm512_mask_storeu_ps(p, FirstLanes(count), v);
}
// v in the first `count` lanes, `other` in the rest.
inline Vf KeepFirst(Vf v, int count, Vf other) {
  return _mm512_mask_blend_ps(FirstLanes(count), other, v);
}

inline __m256 HighHalf(Vf v) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}
inline float ReduceAdd(Vf v) {
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(v), HighHalf(v));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
inline float ReduceMax(Vf v) {
  const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(v), HighHalf(v));
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

inline Vf LoadHalves(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void StoreHalves(uint16_t* p, Vf v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vf LoadBf16(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

}  // namespace
}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_SIMD_AVX512_H_
