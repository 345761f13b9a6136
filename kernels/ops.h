// Element-wise and row-wise operations of a transformer, in F32 on raw pointers.
//
// Matrices are row-major [n, dim]; rows start `stride` floats apart where a stride is given and are
// dense otherwise. Output may be the input unless said otherwise. Every row is computed alone and
// in a fixed order, so its result does not depend on n. No function allocates or starts threads: to
// use several cores, give row ranges to a WorkerPool. Dispatched at run time (kernels/cpu.h).
#ifndef CAIRN_KERNELS_OPS_H_
#define CAIRN_KERNELS_OPS_H_

#include <cstdint>

namespace cairn::kernels {

// y = x / sqrt(mean(x^2) + epsilon) * weight; weight [dim]. (Zhang and Sennrich, 2019.)
void RmsNorm(const float* x, int64_t n, int64_t dim, const float* weight, float epsilon, float* y);

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, population variance; weight, bias
// [dim].
void LayerNorm(const float* x, int64_t n, int64_t dim, const float* weight, const float* bias,
               float epsilon, float* y);

// Rows become exp(x - max) / sum. dim > 0; -inf gives 0; a row that is all -inf becomes all 0.
void Softmax(float* x, int64_t n, int64_t dim);

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g)); `count` elements.
void SiluMul(const float* gate, const float* up, int64_t count, float* y);

// y = x * (1 + erf(x / sqrt(2))) / 2: BERT's GELU, not the tanh approximation.
void Gelu(const float* x, int64_t count, float* y);

// y = gelu(gate) * up, in the tanh form: gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715
// x^3))).
void GeluTanhMul(const float* gate, const float* up, int64_t count, float* y);

// y = a + b.
void Add(const float* a, const float* b, int64_t count, float* y);

// y += scale * x.
void AddScaled(const float* x, float scale, int64_t count, float* y);

float Dot(const float* a, const float* b, int64_t count);

// IEEE half precision; rounds to nearest even.
void FloatToHalf(const float* x, int64_t count, uint16_t* y);
void HalfToFloat(const uint16_t* x, int64_t count, float* y);

// Rotary position embedding (Su et al., 2021). Pair i of a head is turned by position *
// frequencies[i], and multiplied by the magnitude.
enum class RopePairing {
  kInterleaved,  // elements (2i, 2i + 1): llama in GGUF ("norm")
  kHalves,       // elements (i, i + rotary_dim / 2): qwen2, qwen3, gemma ("neox")
};

struct RopeParams {
  int rotary_dim = 0;                   // even, <= head_dim; elements beyond it stay as they are
  const double* frequencies = nullptr;  // [rotary_dim / 2], radians a position
  double magnitude = 1;
};

// table [n, 2, rotary_dim / 2] = cosines, then sines, of each position, times the magnitude. Made
// once a step, for all layers.
void RopeTable(const RopeParams& params, const int32_t* positions, int64_t n, float* table);

// Turns x [n, num_heads, head_dim] in place; rows start `stride` floats apart.
void Rope(RopePairing pairing, const float* table, int rotary_dim, int64_t n, int num_heads,
          int head_dim, int64_t stride, float* x);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_OPS_H_
