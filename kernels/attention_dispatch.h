// Attention with an instruction set of the caller's choice: for tests and benchmarks of this
// folder.
#ifndef CAIRN_KERNELS_ATTENTION_DISPATCH_H_
#define CAIRN_KERNELS_ATTENTION_DISPATCH_H_

#include "common/worker_pool.h"
#include "kernels/attention_kernels.h"

namespace cairn::kernels {

void PagedAttentionWith(const AttentionKernels& kernels, const PagedAttentionArgs& args,
                        WorkerPool& pool);
void DenseAttentionWith(const AttentionKernels& kernels, const DenseAttentionArgs& args,
                        WorkerPool& pool);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_ATTENTION_DISPATCH_H_
