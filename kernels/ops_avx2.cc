#include "kernels/ops_kernels.h"
#include "kernels/simd_avx2.h"

namespace cairn::kernels {
namespace {
#include "kernels/ops.inc"
}  // namespace

const OpsKernels kOpsAvx2 = kOps;

}  // namespace cairn::kernels
