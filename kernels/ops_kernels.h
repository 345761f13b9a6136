// The table of operations that each instruction set fills in. One row, or one run of elements, a
// call.
#ifndef CAIRN_KERNELS_OPS_KERNELS_H_
#define CAIRN_KERNELS_OPS_KERNELS_H_

#include <cstdint>

#include "kernels/cpu_isa.h"

namespace cairn::kernels {

struct OpsKernels {
  void (*rms_norm)(const float* x, int64_t dim, const float* weight, float epsilon, float* y);
  void (*layer_norm)(const float* x, int64_t dim, const float* weight, const float* bias,
                     float epsilon, float* y);
  void (*softmax)(float* x, int64_t dim);
  void (*silu_mul)(const float* gate, const float* up, int64_t count, float* y);
  void (*gelu)(const float* x, int64_t count, float* y);
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t count, float* y);
  void (*add)(const float* a, const float* b, int64_t count, float* y);
  void (*add_scaled)(const float* x, float scale, int64_t count, float* y);
  float (*dot)(const float* a, const float* b, int64_t count);
  void (*float_to_half)(const float* x, int64_t count, uint16_t* y);
  void (*half_to_float)(const uint16_t* x, int64_t count, float* y);
  // One head; cosines and sines [half].
  void (*rope_interleaved)(const float* cosines, const float* sines, int half, float* x);
  void (*rope_halves)(const float* cosines, const float* sines, int half, float* x);
};

extern const OpsKernels kOpsScalar;
extern const OpsKernels kOpsAvx2;
extern const OpsKernels kOpsAvx512;

const OpsKernels& OpsKernelsOf(Isa isa);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_OPS_KERNELS_H_
