#include "engine/kv_cache/block_pool.h"

#include <utility>

#include "common/check.h"
#include "common/strings.h"

namespace cairn::engine {

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), blocks_(std::move(other.blocks_)) {
  other.blocks_.clear();
}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = std::exchange(other.pool_, nullptr);
    blocks_ = std::move(other.blocks_);
    other.blocks_.clear();
  }
  return *this;
}

void BlockTable::Append(BlockTable other) {
  if (other.blocks_.empty()) return;
  CAIRN_CHECK(blocks_.empty() || pool_ == other.pool_);
  pool_ = other.pool_;
  blocks_.insert(blocks_.end(), other.blocks_.begin(), other.blocks_.end());
  other.blocks_.clear();
}

void BlockTable::Replace(size_t i, BlockTable other) {
  CAIRN_CHECK(pool_ == other.pool_ && i < blocks_.size() && other.blocks_.size() == 1);
  std::swap(blocks_[i], other.blocks_[0]);
}

void BlockTable::Reset() {
  // Last block first, so that the next allocation gets them in ascending order again.
  while (!blocks_.empty()) {
    pool_->Release(blocks_.back());
    blocks_.pop_back();
  }
  pool_ = nullptr;
}

BlockPool::BlockPool(int num_blocks) : ref_counts_(num_blocks, 0) {
  free_.reserve(num_blocks);
  for (BlockId id = num_blocks - 1; id >= 0; --id) free_.push_back(id);
}

BlockPool::~BlockPool() { CAIRN_CHECK(num_used_ == 0); }

absl::StatusOr<BlockTable> BlockPool::Allocate(int64_t num_blocks) {
  CAIRN_CHECK(num_blocks >= 0);
  if (num_blocks > num_free()) {
    return absl::ResourceExhaustedError(StrCat("KV cache: ", num_blocks, " blocks asked for, ",
                                               num_free(), " of ", this->num_blocks(), " free"));
  }
  BlockTable table;
  table.pool_ = this;
  table.blocks_.reserve(num_blocks);
  for (int64_t i = 0; i < num_blocks; ++i) {
    const BlockId id = free_.back();
    free_.pop_back();
    CAIRN_DCHECK(ref_counts_[id] == 0);
    ref_counts_[id] = 1;
    table.blocks_.push_back(id);
  }
  num_used_ += static_cast<int>(num_blocks);
  return table;
}

BlockTable BlockPool::Share(std::span<const BlockId> blocks) {
  BlockTable shared;
  shared.pool_ = this;
  shared.blocks_.assign(blocks.begin(), blocks.end());
  for (const BlockId id : blocks) {
    CAIRN_CHECK(ref_counts_[id] > 0);
    ++ref_counts_[id];
  }
  return shared;
}

void BlockPool::Release(BlockId id) {
  CAIRN_CHECK(ref_counts_[id] > 0);
  if (--ref_counts_[id] > 0) return;
  free_.push_back(id);
  --num_used_;
}

bool BlockPool::Consistent() const {
  int referenced = 0;
  for (const int32_t count : ref_counts_) referenced += count > 0 ? 1 : 0;
  for (const BlockId id : free_) {
    if (ref_counts_[id] != 0) return false;
  }
  return referenced == num_used_ && num_free() + num_used_ == num_blocks();
}

}  // namespace cairn::engine
