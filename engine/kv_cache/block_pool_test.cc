#include "engine/kv_cache/block_pool.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

TEST(BlockPoolTest, BlocksForTokensRoundsUp) {
  EXPECT_EQ(BlocksForTokens(0), 0);
  EXPECT_EQ(BlocksForTokens(1), 1);
  EXPECT_EQ(BlocksForTokens(kBlockTokens), 1);
  EXPECT_EQ(BlocksForTokens(kBlockTokens + 1), 2);
}

TEST(BlockPoolTest, AllocatesDistinctBlocksAndTakesThemBack) {
  BlockPool pool(8);
  {
    absl::StatusOr<BlockTable> a = pool.Allocate(3);
    absl::StatusOr<BlockTable> b = pool.Allocate(5);
    ASSERT_TRUE(a.ok() && b.ok());
    std::set<BlockId> ids(a->blocks().begin(), a->blocks().end());
    ids.insert(b->blocks().begin(), b->blocks().end());
    EXPECT_EQ(ids.size(), 8u);
    EXPECT_EQ(pool.num_free(), 0);
    EXPECT_EQ(a->capacity_tokens(), 3 * kBlockTokens);
    EXPECT_TRUE(pool.Consistent());
  }
  EXPECT_EQ(pool.num_free(), 8);
  EXPECT_TRUE(pool.Consistent());
}

TEST(BlockPoolTest, FailedAllocationChangesNothing) {
  BlockPool pool(4);
  absl::StatusOr<BlockTable> a = pool.Allocate(3);
  ASSERT_TRUE(a.ok());
  absl::StatusOr<BlockTable> b = pool.Allocate(2);
  EXPECT_EQ(b.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.Allocate(1).ok());
}

TEST(BlockPoolTest, MovedFromTableReleasesNothing) {
  BlockPool pool(4);
  absl::StatusOr<BlockTable> a = pool.Allocate(2);
  ASSERT_TRUE(a.ok());
  BlockTable b = *std::move(a);
  EXPECT_EQ(pool.num_used(), 2);
  b = BlockTable();
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(BlockPoolTest, SharedBlocksLiveUntilTheLastReference) {
  BlockPool pool(4);
  absl::StatusOr<BlockTable> a = pool.Allocate(3);
  ASSERT_TRUE(a.ok());
  BlockTable b = pool.Share(a->blocks().first(2));
  EXPECT_EQ(pool.ref_count(b.blocks()[0]), 2);
  EXPECT_EQ(pool.num_used(), 3);
  a->Reset();
  EXPECT_EQ(pool.num_used(), 2);
  b.Reset();
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(BlockPoolTest, AppendedBlocksFollowAndAreGivenBackOnce) {
  BlockPool pool(8);
  BlockTable a = *pool.Allocate(3);
  const std::vector<BlockId> first(a.blocks().begin(), a.blocks().end());
  BlockTable b = pool.Share(a.blocks().first(2));
  b.Append(*pool.Allocate(2));
  ASSERT_EQ(b.blocks().size(), 4u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 2, b.blocks().begin()));
  b.Append(BlockTable());
  BlockTable c;
  c.Append(std::move(b));
  EXPECT_EQ(pool.num_used(), 5);
  a.Reset();
  c.Reset();
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(BlockPoolTest, AReplacedBlockIsGivenBack) {
  BlockPool pool(8);
  BlockTable a = *pool.Allocate(3), b = *pool.Allocate(3);
  const BlockId shared = a.blocks()[1], own = b.blocks()[1];
  b.Replace(1, pool.Share(a.blocks().subspan(1, 1)));
  EXPECT_EQ(b.blocks()[1], shared);
  EXPECT_EQ(pool.ref_count(shared), 2);
  EXPECT_EQ(pool.ref_count(own), 0);
  EXPECT_TRUE(pool.Consistent());
}

TEST(BlockPoolTest, RandomTrafficNeverLosesABlock) {
  std::mt19937 rng(1);
  BlockPool pool(64);
  std::vector<BlockTable> tables;
  for (int i = 0; i < 20000; ++i) {
    const int action = static_cast<int>(rng() % 3);
    if (action == 0) {
      const int wanted = static_cast<int>(rng() % 20);
      const bool fits = wanted <= pool.num_free();
      absl::StatusOr<BlockTable> table = pool.Allocate(wanted);
      ASSERT_EQ(table.ok(), fits);
      if (fits) tables.push_back(*std::move(table));
    } else if (action == 1 && !tables.empty()) {
      const BlockTable& source = tables[rng() % tables.size()];
      tables.push_back(pool.Share(source.blocks().first(rng() % (source.blocks().size() + 1))));
    } else if (!tables.empty()) {
      std::swap(tables[rng() % tables.size()], tables.back());
      tables.pop_back();
    }
    std::set<BlockId> live;
    for (const BlockTable& table : tables)
      live.insert(table.blocks().begin(), table.blocks().end());
    ASSERT_EQ(static_cast<int>(live.size()), pool.num_used());
    ASSERT_TRUE(pool.Consistent());
  }
}

TEST(BlockPoolDeathTest, DestroyingAPoolInUseIsABug) {
  EXPECT_DEATH(
      {
        auto* pool = new BlockPool(2);
        auto* table = new absl::StatusOr<BlockTable>(pool->Allocate(1));
        (void)table;
        delete pool;
      },
      "num_used_ == 0");
}

}  // namespace
}  // namespace cairn::engine
