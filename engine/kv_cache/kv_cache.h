// KvCache owns the memory of all KV blocks: keys and values of every layer in half precision.
//
// Layout: [num_layers, num_blocks, 2 (keys, values), the block as in kernels/attention.h]. Pages
// of blocks that were never used cost address space only. Threads: written and read by the runner
// during a step, each row of a step by one task.
#ifndef CAIRN_ENGINE_KV_CACHE_KV_CACHE_H_
#define CAIRN_ENGINE_KV_CACHE_KV_CACHE_H_

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "engine/kv_cache/block_pool.h"
#include "kernels/attention.h"

namespace cairn::engine {

static_assert(kBlockTokens == kernels::kKvBlockSize);

class KvCache {
 public:
  // RESOURCE_EXHAUSTED, with the bytes, when the memory cannot be reserved.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(int num_layers, int num_blocks,
                                                         const kernels::HeadShape& heads);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  kernels::PagedKv Layer(int layer) const;
  // Writes one token's keys and values, each [num_kv_heads, head_dim], into slot `slot` of a block.
  void Store(int layer, BlockId block, int slot, const float* k, const float* v);

  // Copies a block's keys and values of all layers.
  void CopyBlock(BlockId from, BlockId to);

  // Bytes that `num_tokens` tokens (a multiple of kBlockTokens) take.
  static int64_t BytesForTokens(int64_t num_tokens, int num_layers,
                                const kernels::HeadShape& heads);

 private:
  KvCache(uint16_t* data, int64_t bytes, int num_layers, int num_blocks,
          const kernels::HeadShape& heads);

  uint16_t* const data_;
  const int64_t bytes_;
  const int num_layers_;
  const kernels::HeadShape heads_;
  const int64_t half_block_;    // halves of the keys of one block in one layer
  const int64_t layer_stride_;  // halves
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_KV_CACHE_KV_CACHE_H_
