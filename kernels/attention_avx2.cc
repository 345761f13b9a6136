#include "kernels/attention_kernels.h"
#include "kernels/simd_avx2.h"

namespace cairn::kernels {
namespace {
#include "kernels/attention.inc"
#include "kernels/attention_dense.inc"
}  // namespace

const AttentionKernels kAttentionAvx2 = {Paged, Dense};

}  // namespace cairn::kernels
