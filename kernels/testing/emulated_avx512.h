// AVX-512 on any machine: SIMD Everywhere (simde) behind the names of immintrin.h, and the few
// functions that its version in Debian 12 lacks. The *_avx512.cc files are compiled a second time
// with this, into the tests, so that their logic is checked where the instructions do not exist.
#ifndef CAIRN_KERNELS_TESTING_EMULATED_AVX512_H_
#define CAIRN_KERNELS_TESTING_EMULATED_AVX512_H_

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"
#include "kernels/testing/emulated_avx512_tables.h"

#define __mmask16 simde__mmask16

// The second compilation must not define the first one's symbols again.
#define kMatMulAvx512 kMatMulEmulatedAvx512
#define kOpsAvx512 kOpsEmulatedAvx512
#define kAttentionAvx512 kAttentionEmulatedAvx512
// Shared with the AVX2 file, which this machine may not be able to run.
#define RoundRowAvx2 RoundRowScalar
#define RoundRowKAvx2 RoundRowKScalar

namespace cairn::kernels {
namespace {

template <typename To, typename From>
inline To Bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
template <typename T, int n>
struct Lanes {
  T v[n];
};

inline __m512 EmulatedMaskzLoad(__mmask16 mask, const float* p) {
  Lanes<float, 16> out = {};
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) out.v[i] = p[i];
  }
  return Bits<__m512>(out);
}
inline void EmulatedMaskStore(float* p, __mmask16 mask, __m512 v) {
  const auto in = Bits<Lanes<float, 16>>(v);
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) p[i] = in.v[i];
  }
}
inline __m512i EmulatedFloatToInt(__m512 v) {
  const auto in = Bits<Lanes<float, 16>>(v);
  Lanes<int32_t, 16> out;
  for (int i = 0; i < 16; ++i) {
    const bool fits = in.v[i] >= -0x1p31f && in.v[i] < 0x1p31f;
    out.v[i] = fits ? static_cast<int32_t>(std::nearbyint(in.v[i])) : INT32_MIN;
  }
  return Bits<__m512i>(out);
}
inline __m512 EmulatedIntToFloat(__m512i v) {
  const auto in = Bits<Lanes<int32_t, 16>>(v);
  Lanes<float, 16> out;
  for (int i = 0; i < 16; ++i) out.v[i] = static_cast<float>(in.v[i]);
  return Bits<__m512>(out);
}
template <typename Narrow, typename Wide, int n, typename From>
inline __m512i EmulatedWiden(const From& v) {
  const auto in = Bits<Lanes<Narrow, n>>(v);
  Lanes<Wide, n> out;
  for (int i = 0; i < n; ++i) out.v[i] = in.v[i];
  return Bits<__m512i>(out);
}
inline __m512i EmulatedShiftRight32(__m512i v, int count) {
  auto lanes = Bits<Lanes<int32_t, 16>>(v);
  for (int32_t& lane : lanes.v) lane >>= count;
  return Bits<__m512i>(lanes);
}
inline __m512 EmulatedHalvesToFloat(__m256i v) {
  const auto in = Bits<Lanes<uint16_t, 16>>(v);
  Lanes<float, 16> out;
  for (int i = 0; i < 16; ++i) out.v[i] = HalfBitsToFloat(in.v[i]);
  return Bits<__m512>(out);
}
inline __m256i EmulatedFloatToHalves(__m512 v) {
  const auto in = Bits<Lanes<float, 16>>(v);
  Lanes<uint16_t, 16> out;
  for (int i = 0; i < 16; ++i) out.v[i] = FloatToHalfBits(in.v[i]);
  return Bits<__m256i>(out);
}

}  // namespace
}  // namespace cairn::kernels

// Defined there with the arguments of the masked form.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)

#define _mm512_maskz_loadu_ps(mask, p) EmulatedMaskzLoad(mask, p)
#define _mm512_mask_storeu_ps(p, mask, v) EmulatedMaskStore(p, mask, v)
#define _mm512_cvtps_epi32(v) EmulatedFloatToInt(v)
#define _mm512_cvtepi32_ps(v) EmulatedIntToFloat(v)
#define _mm512_cvtepu16_epi32(v) EmulatedWiden<uint16_t, uint32_t, 16>(v)
#define _mm512_cvtepu8_epi16(v) EmulatedWiden<uint8_t, uint16_t, 32>(v)
#define _mm512_srai_epi32(v, count) EmulatedShiftRight32(v, count)
#define _mm512_cvtph_ps(v) EmulatedHalvesToFloat(v)
#define _mm512_cvtps_ph(v, rounding) EmulatedFloatToHalves(v)

#endif  // CAIRN_KERNELS_TESTING_EMULATED_AVX512_H_
