#include "engine/speculative/prompt_lookup.h"

#include <random>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

constexpr double kCheap = 0.05;

TEST(PromptLookupTest, FollowsTheLatestPlaceOfTheLastWords) {
  PromptLookup lookup;
  const std::vector<TokenId> tokens = {1, 2, 30, 31, 9, 1, 2, 40, 41, 42, 8, 1, 2};
  const std::vector<TokenId> draft = lookup.Draft(tokens, 15, kCheap);
  ASSERT_FALSE(draft.empty());
  EXPECT_EQ(draft[0], 40);
}

TEST(PromptLookupTest, FourWordsSayMoreThanTwo) {
  PromptLookup lookup;
  const std::vector<TokenId> tokens = {5, 6, 1, 2, 77, 9, 1, 2, 88, 9, 5, 6, 1, 2};
  EXPECT_EQ(lookup.Draft(tokens, 1, kCheap), std::vector<TokenId>{77});
}

TEST(PromptLookupTest, NothingKnownNothingSaid) {
  PromptLookup lookup;
  EXPECT_TRUE(lookup.Draft(std::vector<TokenId>{}, 15, kCheap).empty());
  EXPECT_TRUE(lookup.Draft(std::vector<TokenId>{1}, 15, kCheap).empty());
  EXPECT_TRUE(lookup.Draft(std::vector<TokenId>{1, 2, 3, 4, 5}, 15, kCheap).empty());
  EXPECT_TRUE(lookup.Draft(std::vector<TokenId>{1, 2, 3, 1, 2}, 0, kCheap).empty());
}

// A text that quotes gets longer and longer guesses; one that only seems to gets none any more, and
// gets them again when it quotes after all.
TEST(PromptLookupTest, GuessesAsMuchAsPays) {
  PromptLookup lookup;
  std::vector<TokenId> tokens;
  for (int i = 0; i < 400; ++i) tokens.push_back(1000 + i);
  tokens.insert(tokens.end(), {1000, 1001});
  size_t length = 0;
  for (int next = 2; next + 20 < 300;) {
    length = lookup.Draft(tokens, kMaxDraft, kCheap).size();
    for (size_t i = 0; i <= length; ++i) tokens.push_back(1000 + next++);
  }
  EXPECT_EQ(length, static_cast<size_t>(kMaxDraft));
  // The same two tokens again and again, and never the same after them.
  for (int i = 0; i < 60; ++i) {
    tokens.insert(tokens.end(), {7, 8});
    length = lookup.Draft(tokens, kMaxDraft, 0.3).size();
    tokens.push_back(5000 + i);
    lookup.Draft(tokens, kMaxDraft, 0.3);
  }
  EXPECT_EQ(length, 0u);
  for (int i = 0; i < 30; ++i) {
    length = lookup.Draft(tokens, kMaxDraft, 0.3).size();
    tokens.push_back(1100 + i);
  }
  EXPECT_GT(length, 1u);
}

TEST(PromptLookupTest, TheBestLengthIsTheBest) {
  for (const double hit_rate : {0.0, 0.1, 0.3, 0.6, 0.9, 0.99, 1.0}) {
    for (const double row_share : {0.01, 0.1, 0.3, 1.0}) {
      const auto rate = [&](int n) {
        double tokens = 0, chance = 1;
        for (int i = 0; i <= n; ++i, chance *= hit_rate) tokens += chance;
        return tokens / (1 + n * row_share);
      };
      const int best = BestDraftLength(hit_rate, row_share, 15);
      for (int n = 0; n <= 15; ++n) EXPECT_GE(rate(best) + 1e-12, rate(n));
    }
  }
  EXPECT_EQ(BestDraftLength(1.0, 0.9, 15), 15);
  EXPECT_EQ(BestDraftLength(0.0, 0.01, 15), 0);
}

}  // namespace
}  // namespace cairn::engine
