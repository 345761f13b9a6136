// Scaled dot-product attention: causal over a paged KV cache, and bidirectional over dense ragged
// sequences.
//
// out = softmax(scale * q k^T) v, in one pass with a running maximum (Milakov and Gimelshein, 2018;
// tiled as in FlashAttention), 32 keys of a cache or 512 of a dense sequence at a time from the
// first on. A row's result depends on its own keys only, to the bit: not on the other rows of the
// call, nor on the number of threads. Query head h reads KV head h / (num_heads / num_kv_heads).
//
// REQUIRES throughout: head_dim a multiple of 8, at most kMaxHeadDim; num_heads a multiple of
// num_kv_heads; `out` does not overlap the inputs. Dispatched at run time (kernels/cpu.h);
// thread-safe.
#ifndef CAIRN_KERNELS_ATTENTION_H_
#define CAIRN_KERNELS_ATTENTION_H_

#include <cstdint>

namespace cairn {
class WorkerPool;
}

namespace cairn::kernels {

inline constexpr int kKvBlockSize = 16;  // tokens in a block of the KV cache
inline constexpr int kMaxHeadDim = 256;

struct HeadShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
};

// One layer of a paged cache, in IEEE half precision. Block b of values is v + b * block_stride,
// [kKvBlockSize, num_kv_heads, head_dim]; block b of keys is k + b * block_stride, [num_kv_heads,
// head_dim, kKvBlockSize]: keys side by side, as their dot products with a query are computed.
// Block tables hold such b.
struct PagedKv {
  const uint16_t* k = nullptr;
  const uint16_t* v = nullptr;
  int64_t block_stride = 0;  // halves
};

// Rows of any number of sequences in one call. Row i attends to tokens 0 .. positions[i] of its
// sequence, or to the last `window` of these, and its block table is block_tables[i]; tokens must
// have been stored before, those before a window in the same step of 32 too. Rows of one sequence
// share cache reads when they stand together and share the table pointer.
struct PagedAttentionArgs {
  HeadShape shape;
  PagedKv kv;
  int64_t n = 0;
  const float* q = nullptr;                      // [n, num_heads, head_dim]
  int64_t q_stride = 0;                          // floats between rows
  const int32_t* positions = nullptr;            // [n]
  const int32_t* const* block_tables = nullptr;  // [n]
  int32_t window = 0;                            // keys that a row sees at most; 0 = all
  float scale = 1.0f;                            // usually 1 / sqrt(head_dim)
  float* out = nullptr;                          // [n, num_heads, head_dim]
  int64_t out_stride = 0;
};
void PagedAttention(const PagedAttentionArgs& args, WorkerPool& pool);

// Write one token's keys or values [num_kv_heads * head_dim] into slot `slot` (0 .. 15) of a block.
void StoreKeys(const float* x, const HeadShape& shape, int slot, uint16_t* block);
void StoreValues(const float* x, const HeadShape& shape, int slot, uint16_t* block);

// Sequence s holds rows offsets[s] .. offsets[s + 1] - 1; every row attends to all rows of its
// sequence. An empty sequence is allowed. q is [total, num_heads, head_dim], k and v [total,
// num_kv_heads, head_dim].
struct DenseAttentionArgs {
  HeadShape shape;
  int num_sequences = 0;
  const int32_t* offsets = nullptr;  // [num_sequences + 1], ascending from 0
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;  // floats between rows
  float scale = 1.0f;
  float* out = nullptr;  // [total, num_heads, head_dim]
  int64_t out_stride = 0;
};
void DenseAttention(const DenseAttentionArgs& args, WorkerPool& pool);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_ATTENTION_H_
