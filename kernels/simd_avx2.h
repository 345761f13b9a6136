// F32 vectors of 8 lanes, for the *.inc files of this folder. Only for files compiled with AVX2,
// FMA and F16C. Everything has internal linkage, so that no code for this instruction set can be
// picked by the linker elsewhere.
#ifndef CAIRN_KERNELS_SIMD_AVX2_H_
#define CAIRN_KERNELS_SIMD_AVX2_H_

#include <immintrin.h>

#include <cstdint>

namespace cairn::kernels {
namespace {

using Vf = __m256;
constexpr int kLanes = 8;

inline Vf Zero() { return _mm256_setzero_ps(); }
inline Vf Set1(float x) { return _mm256_set1_ps(x); }
inline Vf Load(const float* p) { return _mm256_loadu_ps(p); }
inline void Store(float* p, Vf v) { _mm256_storeu_ps(p, v); }
inline Vf Add(Vf a, Vf b) { return _mm256_add_ps(a, b); }
inline Vf Sub(Vf a, Vf b) { return _mm256_sub_ps(a, b); }
inline Vf Mul(Vf a, Vf b) { return _mm256_mul_ps(a, b); }
inline Vf Div(Vf a, Vf b) { return _mm256_div_ps(a, b); }
inline Vf Max(Vf a, Vf b) { return _mm256_max_ps(a, b); }
inline Vf Min(Vf a, Vf b) { return _mm256_min_ps(a, b); }
inline Vf Fma(Vf a, Vf b, Vf c) { return _mm256_fmadd_ps(a, b, c); }    // a * b + c
inline Vf Fnma(Vf a, Vf b, Vf c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
inline Vf Abs(Vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline Vf RoundToInt(Vf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n for integral n in [-126, 127].
inline Vf Exp2Int(Vf n) {
  const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}
// a where x < y, else b.
inline Vf SelectLess(Vf x, Vf y, Vf a, Vf b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}

// The first `count` (0 .. 8) lanes; the others are 0.
inline __m256i FirstLanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vf LoadFirst(const float* p, int count) { return _mm256_maskload_ps(p, FirstLanes(count)); }
inline void StoreFirst(float* p, int count, Vf v) { _mm256_maskstore_ps(p, FirstLanes(count), v); }
// v in the first `count` lanes, `other` in the rest.
inline Vf KeepFirst(Vf v, int count, Vf other) {
  return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(FirstLanes(count)));
}

inline float ReduceAdd(Vf v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
inline float ReduceMax(Vf v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

inline Vf LoadHalves(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void StoreHalves(uint16_t* p, Vf v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vf LoadBf16(const uint16_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

}  // namespace
}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_SIMD_AVX2_H_
