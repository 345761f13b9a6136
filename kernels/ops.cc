#include "kernels/ops.h"

#include <cmath>

#include "common/check.h"
#include "kernels/cpu.h"
#include "kernels/ops_kernels.h"

namespace cairn::kernels {

const OpsKernels& OpsKernelsOf(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return kOpsAvx512;
  if (isa == Isa::kAvx2) return kOpsAvx2;
#endif
  return kOpsScalar;
}

namespace {

const OpsKernels& Ops() {
  static const OpsKernels& ops = OpsKernelsOf(ActiveIsa());
  return ops;
}

}  // namespace

void RmsNorm(const float* x, int64_t n, int64_t dim, const float* weight, float epsilon, float* y) {
  for (int64_t i = 0; i < n; ++i) Ops().rms_norm(x + i * dim, dim, weight, epsilon, y + i * dim);
}

void LayerNorm(const float* x, int64_t n, int64_t dim, const float* weight, const float* bias,
               float epsilon, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    Ops().layer_norm(x + i * dim, dim, weight, bias, epsilon, y + i * dim);
  }
}

void Softmax(float* x, int64_t n, int64_t dim) {
  CAIRN_CHECK(dim > 0);
  for (int64_t i = 0; i < n; ++i) Ops().softmax(x + i * dim, dim);
}

void SiluMul(const float* gate, const float* up, int64_t count, float* y) {
  Ops().silu_mul(gate, up, count, y);
}

void Gelu(const float* x, int64_t count, float* y) { Ops().gelu(x, count, y); }

void GeluTanhMul(const float* gate, const float* up, int64_t count, float* y) {
  Ops().gelu_tanh_mul(gate, up, count, y);
}

void Add(const float* a, const float* b, int64_t count, float* y) { Ops().add(a, b, count, y); }

void AddScaled(const float* x, float scale, int64_t count, float* y) {
  Ops().add_scaled(x, scale, count, y);
}

float Dot(const float* a, const float* b, int64_t count) { return Ops().dot(a, b, count); }

void FloatToHalf(const float* x, int64_t count, uint16_t* y) { Ops().float_to_half(x, count, y); }

void HalfToFloat(const uint16_t* x, int64_t count, float* y) { Ops().half_to_float(x, count, y); }

void RopeTable(const RopeParams& params, const int32_t* positions, int64_t n, float* table) {
  CAIRN_CHECK(params.rotary_dim > 0 && params.rotary_dim % 2 == 0);
  const int half = params.rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    for (int64_t t = 0; t < n; ++t) {
      const double angle = positions[t] * params.frequencies[i];
      float* cosines = table + t * params.rotary_dim;
      cosines[i] = static_cast<float>(params.magnitude * std::cos(angle));
      cosines[half + i] = static_cast<float>(params.magnitude * std::sin(angle));
    }
  }
}

void Rope(RopePairing pairing, const float* table, int rotary_dim, int64_t n, int num_heads,
          int head_dim, int64_t stride, float* x) {
  CAIRN_CHECK(rotary_dim % 2 == 0 && rotary_dim <= head_dim);
  const int half = rotary_dim / 2;
  const auto turn =
      pairing == RopePairing::kInterleaved ? Ops().rope_interleaved : Ops().rope_halves;
  for (int64_t t = 0; t < n; ++t, table += rotary_dim) {
    for (int h = 0; h < num_heads; ++h)
      turn(table, table + half, half, x + t * stride + h * head_dim);
  }
}

}  // namespace cairn::kernels
