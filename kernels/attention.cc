#include "kernels/attention.h"

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/huge_page_allocator.h"
#include "kernels/attention_dispatch.h"
#include "kernels/cpu.h"
#include "kernels/ops.h"

namespace cairn::kernels {
namespace {

void CheckShape(const HeadShape& shape) {
  CAIRN_CHECK(shape.num_kv_heads > 0 && shape.num_heads > 0 &&
              shape.num_heads % shape.num_kv_heads == 0);
  CAIRN_CHECK(shape.head_dim > 0 && shape.head_dim % 8 == 0 && shape.head_dim <= kMaxHeadDim);
}

// Query heads of a task: a whole group that shares a KV head, or less of it when there are too few
// tasks for the threads.
int HeadsPerTask(const HeadShape& shape, int64_t row_tiles, int num_threads) {
  const int group = shape.num_heads / shape.num_kv_heads;
  int parts = (group + kTileHeads - 1) / kTileHeads;
  while (parts < group && row_tiles * shape.num_kv_heads * parts < num_threads) ++parts;
  return (group + parts - 1) / parts;
}

// Rows of a dense tile. Results do not depend on it: a row's keys come in the same steps.
int DenseTileRows(const DenseAttentionArgs& args, int num_threads) {
  const int64_t rows = args.offsets[args.num_sequences] - args.offsets[0];
  int tile_rows = kDenseTileRows;
  while (tile_rows > kLeastDenseTileRows &&
         rows / tile_rows * args.shape.num_kv_heads < 4 * int64_t{num_threads}) {
    tile_rows /= 2;
  }
  return tile_rows;
}

// Calls run(row tile index, head_begin, head_end) for all of them in parallel.
template <typename Run>
void ForTiles(const HeadShape& shape, int64_t row_tiles, WorkerPool& pool, Run run) {
  const int group = shape.num_heads / shape.num_kv_heads;
  const int heads = HeadsPerTask(shape, row_tiles, pool.size());
  const int parts = (group + heads - 1) / heads;
  pool.ParallelFor(row_tiles * shape.num_kv_heads * parts, [&](int64_t task) {
    const int part = static_cast<int>(task % parts);
    const int kv_head = static_cast<int>(task / parts % shape.num_kv_heads);
    const int begin = kv_head * group + part * heads;
    run(task / parts / shape.num_kv_heads, begin, std::min(begin + heads, (kv_head + 1) * group));
  });
}

}  // namespace

float* DenseScratch(int64_t count) {
  thread_local HugeVector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < count) scratch.resize(count);
  return scratch.data();
}

const AttentionKernels& AttentionKernelsOf(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return kAttentionAvx512;
  if (isa == Isa::kAvx2) return kAttentionAvx2;
#endif
  return kAttentionScalar;
}

void PagedAttentionWith(const AttentionKernels& kernels, const PagedAttentionArgs& args,
                        WorkerPool& pool) {
  CheckShape(args.shape);
  CAIRN_CHECK(args.window >= 0);
  std::vector<int64_t> starts;  // of row tiles
  for (int64_t row = 0; row < args.n; ++row) {
    CAIRN_CHECK(args.positions[row] >= 0);
    const bool same = row > 0 && args.block_tables[row] == args.block_tables[row - 1];
    if (!same || row - starts.back() == kTileRows) starts.push_back(row);
  }
  const int64_t tiles = static_cast<int64_t>(starts.size());
  starts.push_back(args.n);
  ForTiles(args.shape, tiles, pool, [&](int64_t tile, int head_begin, int head_end) {
    kernels.paged(args, {starts[tile], starts[tile + 1], head_begin, head_end});
  });
}

void DenseAttentionWith(const AttentionKernels& kernels, const DenseAttentionArgs& args,
                        WorkerPool& pool) {
  CheckShape(args.shape);
  struct RowTile {
    int64_t begin, end;
    int sequence;
  };
  std::vector<RowTile> tiles;
  const int tile_rows = DenseTileRows(args, pool.size());
  for (int s = 0; s < args.num_sequences; ++s) {
    CAIRN_CHECK(args.offsets[s] <= args.offsets[s + 1]);
    for (int64_t row = args.offsets[s]; row < args.offsets[s + 1]; row += tile_rows) {
      tiles.push_back({row, std::min<int64_t>(row + tile_rows, args.offsets[s + 1]), s});
    }
  }
  ForTiles(args.shape, static_cast<int64_t>(tiles.size()), pool,
           [&](int64_t i, int head_begin, int head_end) {
             const RowTile& tile = tiles[i];
             kernels.dense(args, {tile.begin, tile.end, head_begin, head_end},
                           args.offsets[tile.sequence], args.offsets[tile.sequence + 1]);
           });
}

void PagedAttention(const PagedAttentionArgs& args, WorkerPool& pool) {
  PagedAttentionWith(AttentionKernelsOf(ActiveIsa()), args, pool);
}

void DenseAttention(const DenseAttentionArgs& args, WorkerPool& pool) {
  DenseAttentionWith(AttentionKernelsOf(ActiveIsa()), args, pool);
}

void StoreKeys(const float* x, const HeadShape& shape, int slot, uint16_t* block) {
  CAIRN_DCHECK(slot >= 0 && slot < kKvBlockSize);
  const int64_t token = static_cast<int64_t>(shape.num_kv_heads) * shape.head_dim;
  uint16_t halves[kMaxHeadDim];
  for (int64_t begin = 0; begin < token; begin += shape.head_dim) {
    FloatToHalf(x + begin, shape.head_dim, halves);
    uint16_t* out = block + begin * kKvBlockSize + slot;
    for (int d = 0; d < shape.head_dim; ++d) out[d * kKvBlockSize] = halves[d];
  }
}

void StoreValues(const float* x, const HeadShape& shape, int slot, uint16_t* block) {
  CAIRN_DCHECK(slot >= 0 && slot < kKvBlockSize);
  const int64_t token = static_cast<int64_t>(shape.num_kv_heads) * shape.head_dim;
  FloatToHalf(x, token, block + slot * token);
}

}  // namespace cairn::kernels
