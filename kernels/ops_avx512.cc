#include "kernels/ops_kernels.h"
#include "kernels/simd_avx512.h"

namespace cairn::kernels {
namespace {
#include "kernels/ops.inc"
}  // namespace

const OpsKernels kOpsAvx512 = kOps;

}  // namespace cairn::kernels
