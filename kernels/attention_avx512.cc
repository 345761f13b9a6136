#include "kernels/attention_kernels.h"
#include "kernels/simd_avx512.h"

namespace cairn::kernels {
namespace {
#include "kernels/attention.inc"
#include "kernels/attention_dense.inc"
}  // namespace

const AttentionKernels kAttentionAvx512 = {Paged, Dense};

}  // namespace cairn::kernels
