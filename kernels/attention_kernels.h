// The parts of attention that each instruction set fills in.
#ifndef CAIRN_KERNELS_ATTENTION_KERNELS_H_
#define CAIRN_KERNELS_ATTENTION_KERNELS_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu_isa.h"

namespace cairn::kernels {

// Rows and query heads that one call takes at most. With head_dim 128, the queries and outputs of 8
// rows x 6 heads are 48 KiB, which the second-level cache holds while keys pass by.
inline constexpr int kTileRows = 8;
inline constexpr int kTileHeads = 16;
// Keys are turned once for each tile of a dense sequence: many rows make that a small part of the
// work. Tiles have fewer rows, down to the least, where there would be too few for the threads.
inline constexpr int kDenseTileRows = 512;
inline constexpr int kLeastDenseTileRows = 64;

// Rows [row_begin, row_end) and query heads [head_begin, head_end). All rows share a block table,
// or keys; all heads share a KV head.
struct AttentionTile {
  int64_t row_begin = 0, row_end = 0;
  int head_begin = 0, head_end = 0;
};

// The first key that the row at `position` sees.
inline int32_t FirstKey(int32_t position, int32_t window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

struct AttentionKernels {
  void (*paged)(const PagedAttentionArgs& args, const AttentionTile& tile);
  // Keys are rows [key_begin, key_end).
  void (*dense)(const DenseAttentionArgs& args, const AttentionTile& tile, int64_t key_begin,
                int64_t key_end);
};

// Room for `count` floats, aligned to 64 bytes, that a thread keeps for its next call.
float* DenseScratch(int64_t count);

extern const AttentionKernels kAttentionScalar;
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;

const AttentionKernels& AttentionKernelsOf(Isa isa);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_ATTENTION_KERNELS_H_
