// The AVX-512 and AMX kernels compiled against an emulation, for tests.
#ifndef CAIRN_KERNELS_TESTING_EMULATED_AVX512_TABLES_H_
#define CAIRN_KERNELS_TESTING_EMULATED_AVX512_TABLES_H_

#include "kernels/attention_kernels.h"
#include "kernels/matmul_kernels.h"
#include "kernels/ops_kernels.h"

namespace cairn::kernels {

extern const MatMulKernels kMatMulEmulatedAvx512;
extern const MatMulKernels kMatMulEmulatedAmx;
extern const OpsKernels kOpsEmulatedAvx512;
extern const AttentionKernels kAttentionEmulatedAvx512;

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_TESTING_EMULATED_AVX512_TABLES_H_
