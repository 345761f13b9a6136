// BlockPool hands out fixed-size KV-cache blocks and counts references to them.
//
// Units:     one block = kBlockTokens tokens of every layer; ids are dense in [0, num_blocks).
// Ownership: the pool owns ids only (KvCache owns the memory). BlockTable holds references and
// gives
//            them back when it goes: no other code releases a block.
// Threads:   thread-compatible; the step loop is the only caller.
// Errors:    Allocate returns RESOURCE_EXHAUSTED when fewer blocks are free, and changes nothing.
#ifndef CAIRN_ENGINE_KV_CACHE_BLOCK_POOL_H_
#define CAIRN_ENGINE_KV_CACHE_BLOCK_POOL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"

namespace cairn::engine {

using BlockId = int32_t;
inline constexpr int kBlockTokens = 16;

// Blocks that hold `num_tokens` tokens.
constexpr int64_t BlocksForTokens(int64_t num_tokens) {
  return (num_tokens + kBlockTokens - 1) / kBlockTokens;
}

class BlockPool;

// The blocks of one sequence, in token order. Move-only; releases its references when destroyed.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { Reset(); }

  void Reset();
  // Takes over the blocks of `other`, after its own. REQUIRES: both come from one pool.
  void Append(BlockTable other);
  // Takes the one block of `other` in place of the i-th. REQUIRES: as for Append; i is in range.
  void Replace(size_t i, BlockTable other);
  std::span<const BlockId> blocks() const { return blocks_; }
  int64_t capacity_tokens() const { return static_cast<int64_t>(blocks_.size()) * kBlockTokens; }

 private:
  friend class BlockPool;
  BlockPool* pool_ = nullptr;
  std::vector<BlockId> blocks_;
};

class BlockPool {
 public:
  explicit BlockPool(int num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();  // REQUIRES: every BlockTable is gone.

  absl::StatusOr<BlockTable> Allocate(int64_t num_blocks);
  // A second table over blocks that other tables hold; they become shared.
  BlockTable Share(std::span<const BlockId> blocks);

  int num_blocks() const { return static_cast<int>(ref_counts_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_used() const { return num_used_; }
  int ref_count(BlockId id) const { return ref_counts_[id]; }

  // Recounts from the reference counts; false when a block is lost, or free and referenced at once.
  bool Consistent() const;

 private:
  friend class BlockTable;
  void Release(BlockId id);

  std::vector<int32_t> ref_counts_;  // [num_blocks], 0 = free
  std::vector<BlockId> free_;        // a stack: the block freed last is still warm in the caches
  int num_used_ = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_KV_CACHE_BLOCK_POOL_H_
