// The product with an instruction set of the caller's choice: for tests and benchmarks of this
// folder.
#ifndef CAIRN_KERNELS_MATMUL_DISPATCH_H_
#define CAIRN_KERNELS_MATMUL_DISPATCH_H_

#include "kernels/cpu.h"
#include "kernels/matmul.h"
#include "kernels/matmul_kernels.h"

namespace cairn::kernels {

void MatMulGroupWith(const MatMulKernels& kernels, const MatMulInput& x,
                     std::span<const MatMulOutput> outputs, WorkerPool& pool);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_MATMUL_DISPATCH_H_
