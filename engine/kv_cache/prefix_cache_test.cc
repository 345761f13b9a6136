#include "engine/kv_cache/prefix_cache.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

std::vector<int32_t> Tokens(int num_blocks, int first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(num_blocks) * kBlockTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

std::vector<BlockId> Ids(const BlockTable& table) {
  return {table.blocks().begin(), table.blocks().end()};
}

TEST(PrefixCacheTest, FindsTheLongestKnownBeginning) {
  BlockPool pool(10);
  PrefixCache cache(&pool);
  const std::vector<int32_t> tokens = Tokens(3);
  BlockTable table = *pool.Allocate(3);
  const std::vector<BlockId> ids = Ids(table);
  cache.Insert("", tokens, &table);
  table.Reset();
  EXPECT_EQ(pool.num_used(), 3);
  EXPECT_EQ(cache.num_idle(), 3);

  EXPECT_EQ(Ids(cache.Match("", tokens)), ids);
  EXPECT_EQ(Ids(cache.Match("", std::span(tokens).first(3 * kBlockTokens - 1))),
            std::vector<BlockId>({ids[0], ids[1]}));
  std::vector<int32_t> other = tokens;
  other[kBlockTokens] = -1;  // first of the second block
  EXPECT_EQ(Ids(cache.Match("", other)), std::vector<BlockId>({ids[0]}));
  other[0] = -1;
  EXPECT_TRUE(Ids(cache.Match("", other)).empty());
  // The third block's tokens alone are not its beginning.
  EXPECT_TRUE(Ids(cache.Match("", std::span(tokens).subspan(2 * kBlockTokens))).empty());
  EXPECT_TRUE(Ids(cache.Match("", {})).empty());
  cache.Clear();
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(PrefixCacheTest, SaltsShareNothing) {
  BlockPool pool(10);
  PrefixCache cache(&pool);
  const std::vector<int32_t> tokens = Tokens(2);
  BlockTable a = *pool.Allocate(2), b = *pool.Allocate(2);
  cache.Insert("a", tokens, &a);
  EXPECT_TRUE(Ids(cache.Match("", tokens)).empty());
  EXPECT_TRUE(Ids(cache.Match("b", tokens)).empty());
  cache.Insert("b", tokens, &b);
  EXPECT_EQ(Ids(cache.Match("a", tokens)), Ids(a));
  EXPECT_EQ(Ids(cache.Match("b", tokens)), Ids(b));
  cache.Clear();
}

TEST(PrefixCacheTest, BlocksComputedTwiceAreKeptOnce) {
  BlockPool pool(10);
  PrefixCache cache(&pool);
  const std::vector<int32_t> tokens = Tokens(3);
  BlockTable a = *pool.Allocate(2), b = *pool.Allocate(3);
  cache.Insert("", std::span(tokens).first(2 * kBlockTokens), &a);
  cache.Insert("", tokens, &b);
  EXPECT_EQ(std::vector<BlockId>({b.blocks()[0], b.blocks()[1]}), Ids(a));
  EXPECT_EQ(Ids(cache.Match("", tokens)), Ids(b));
  EXPECT_EQ(cache.num_blocks(), 3);
  EXPECT_EQ(pool.num_used(), 3);
  // So the parents of a block in use are in use as well, and cannot be reclaimed.
  a.Reset();
  EXPECT_EQ(cache.num_idle(), 0);
  cache.Clear();
}

TEST(PrefixCacheTest, ReclaimsTheLeastRecentlyUsedIdleLeaves) {
  BlockPool pool(6);
  PrefixCache cache(&pool);
  const std::vector<int32_t> x = Tokens(2, 0), y = Tokens(2, 1000), z = Tokens(2, 2000);
  std::vector<BlockId> ids;
  for (const auto* tokens : {&x, &y, &z}) {
    BlockTable table = *pool.Allocate(2);
    cache.Insert("", *tokens, &table);
  }
  const BlockTable held = cache.Match("", y);
  (void)cache.Match("", x);  // z is the oldest idle one now
  EXPECT_EQ(cache.num_idle(), 4);
  EXPECT_FALSE(cache.Reclaim(5));
  EXPECT_EQ(pool.num_free(), 0);
  ASSERT_TRUE(cache.Reclaim(1));
  EXPECT_EQ(cache.Match("", z).blocks().size(), 1u);  // its end went first
  EXPECT_EQ(cache.Match("", x).blocks().size(), 2u);
  ASSERT_TRUE(cache.Reclaim(3));
  EXPECT_EQ(cache.Match("", z).blocks().size(), 0u);
  EXPECT_EQ(cache.Match("", x).blocks().size(), 1u);
  EXPECT_EQ(cache.Match("", y).blocks().size(), 2u);
  ASSERT_TRUE(cache.Reclaim(4));
  EXPECT_EQ(cache.num_blocks(), 2);
  EXPECT_FALSE(cache.Reclaim(5));  // y is held
  cache.Clear();
}

// Against a plain list of what was inserted: matches are right and as long as they can be, blocks
// never get lost, and only idle ones are reclaimed.
TEST(PrefixCacheTest, RandomTrafficAgreesWithAPlainList) {
  std::mt19937 rng(1);
  BlockPool pool(40);
  PrefixCache cache(&pool);
  struct Held {
    std::string salt;
    std::vector<int32_t> tokens;
    BlockTable table;
  };
  std::vector<Held> held;
  // What a block's keys and values would be: all tokens up to its end, and the salt.
  std::map<BlockId, std::pair<std::string, std::vector<int32_t>>> contents;
  for (int step = 0; step < 20000; ++step) {
    if (rng() % 3 != 0 || held.empty()) {
      Held request;
      request.salt = rng() % 2 ? "a" : "b";
      const int num_blocks = 1 + static_cast<int>(rng() % 6);
      for (int i = 0; i < num_blocks; ++i) {  // few different blocks, so that beginnings repeat
        const std::vector<int32_t> block = Tokens(1, static_cast<int>(rng() % 3) * 100);
        request.tokens.insert(request.tokens.end(), block.begin(), block.end());
      }
      // Sometimes as if nothing was known when the request began.
      if (rng() % 4 != 0) request.table = cache.Match(request.salt, request.tokens);
      const size_t known = request.table.blocks().size();
      for (size_t i = 0; i < known; ++i) {
        const auto& [salt, tokens] = contents.at(request.table.blocks()[i]);
        ASSERT_EQ(salt, request.salt);
        ASSERT_EQ(tokens.size(), (i + 1) * kBlockTokens);
        ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), request.tokens.begin()));
      }
      const int64_t wanted = num_blocks - static_cast<int64_t>(known);
      const bool possible = wanted <= pool.num_free() + cache.num_idle();
      ASSERT_EQ(cache.Reclaim(wanted), possible);
      if (!possible) continue;
      request.table.Append(*pool.Allocate(wanted));
      for (size_t i = known; i < request.table.blocks().size(); ++i) {
        contents[request.table.blocks()[i]] = {
            request.salt,
            {request.tokens.begin(), request.tokens.begin() + (i + 1) * kBlockTokens}};
      }
      cache.Insert(request.salt, request.tokens, &request.table);
      ASSERT_EQ(cache.Match(request.salt, request.tokens).blocks().size(),
                static_cast<size_t>(num_blocks));
      held.push_back(std::move(request));
    } else {
      std::swap(held[rng() % held.size()], held.back());
      held.pop_back();
    }
    ASSERT_TRUE(pool.Consistent());
    if (held.empty()) {
      ASSERT_EQ(pool.num_used(), cache.num_blocks());
      ASSERT_EQ(cache.num_idle(), cache.num_blocks());
    }
  }
  held.clear();
  cache.Clear();
  EXPECT_EQ(pool.num_used(), 0);
}

}  // namespace
}  // namespace cairn::engine
