// Plain loops: the definition of right for the other instruction sets.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/half.h"
#include "kernels/ops_kernels.h"

namespace cairn::kernels {
namespace {

void RmsNormRow(const float* x, int64_t dim, const float* weight, float epsilon, float* y) {
  float sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += x[i] * x[i];
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(dim) + epsilon);
  for (int64_t i = 0; i < dim; ++i) y[i] = x[i] * inverse * weight[i];
}

void LayerNormRow(const float* x, int64_t dim, const float* weight, const float* bias,
                  float epsilon, float* y) {
  float sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(dim);
  float squares = 0;
  for (int64_t i = 0; i < dim; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(dim) + epsilon);
  for (int64_t i = 0; i < dim; ++i) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

void SoftmaxRow(float* x, int64_t dim) {
  const float max = *std::max_element(x, x + dim);
  if (max == -std::numeric_limits<float>::infinity()) {
    std::fill(x, x + dim, 0.0f);
    return;
  }
  float sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += x[i] = std::exp(x[i] - max);
  for (int64_t i = 0; i < dim; ++i) x[i] /= sum;
}

void SiluMulRun(const float* gate, const float* up, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void GeluRun(const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = 0.5f * x[i] * std::erfc(-x[i] * std::sqrt(0.5f));
}

void GeluTanhMulRun(const float* gate, const float* up, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = gate[i];
    // (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)): no cancellation where z is very negative.
    const float twice_z = 1.5957691f * (x + 0.044715f * x * x * x);
    y[i] = x / (1.0f + std::exp(-twice_z)) * up[i];
  }
}

void AddRun(const float* a, const float* b, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

void AddScaledRun(const float* x, float scale, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += scale * x[i];
}

float DotRun(const float* a, const float* b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void FloatToHalfRun(const float* x, int64_t count, uint16_t* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = FloatToHalfBits(x[i]);
}

void HalfToFloatRun(const uint16_t* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = HalfBitsToFloat(x[i]);
}

void Turn(float c, float s, float* a, float* b) {
  const float turned = *a * c - *b * s;
  *b = *a * s + *b * c;
  *a = turned;
}

void RopeInterleavedHead(const float* cosines, const float* sines, int half, float* x) {
  for (int i = 0; i < half; ++i) Turn(cosines[i], sines[i], x + 2 * i, x + 2 * i + 1);
}

void RopeHalvesHead(const float* cosines, const float* sines, int half, float* x) {
  for (int i = 0; i < half; ++i) Turn(cosines[i], sines[i], x + i, x + half + i);
}

}  // namespace

const OpsKernels kOpsScalar = {RmsNormRow,    LayerNormRow,   SoftmaxRow,     SiluMulRun,
                               GeluRun,       GeluTanhMulRun, AddRun,         AddScaledRun,
                               DotRun,        FloatToHalfRun, HalfToFloatRun, RopeInterleavedHead,
                               RopeHalvesHead};

}  // namespace cairn::kernels
