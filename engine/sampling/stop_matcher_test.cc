#include "engine/sampling/stop_matcher.h"

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

// The definition: at each byte, look back for every stop string.
std::string CutByDefinition(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

// The longest end of `text` that begins some stop string.
size_t HoldByDefinition(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t n = text.size(); n > 0; --n) {
    for (const std::string& stop : stops) {
      if (n < stop.size() && text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
    }
  }
  return 0;
}

TEST(StopMatcherTest, WithoutStopStringsEverythingPasses) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Feed("any text"), "any text");
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, FindsAMatchAcrossPieces) {
  StopMatcher matcher({"</answer>"});
  EXPECT_EQ(matcher.Feed("yes</ans"), "yes");
  EXPECT_EQ(matcher.Feed("wer"), "");
  EXPECT_EQ(matcher.Feed("> and more"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Feed("still more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, AFalseStartIsGivenBack) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.Feed("a\n\nUs"), "a");
  EXPECT_EQ(matcher.Feed("ed"), "\n\nUsed");
  EXPECT_EQ(matcher.Feed("\n"), "");
  EXPECT_EQ(matcher.Flush(), "\n");
}

TEST(StopMatcherTest, OverlappingPrefixesAreNotLost) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.Feed("aaaa"), "aa");
  EXPECT_EQ(matcher.Feed("b"), "");
  EXPECT_TRUE(matcher.matched());
}

TEST(StopMatcherTest, TheMatchThatEndsFirstWinsThenTheLongest) {
  StopMatcher inner({"abcd", "bc"});
  EXPECT_EQ(inner.Feed("xabcd"), "xa");
  StopMatcher longest({"bc", "abc"});
  EXPECT_EQ(longest.Feed("xabc"), "x");
}

TEST(StopMatcherTest, RandomTextAgreesWithTheDefinitionInAnyPieces) {
  std::mt19937 rng(7);
  auto random_text = [&rng](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + rng() % 3));
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i <= rng() % 3; ++i) stops.push_back(random_text(1 + rng() % 7));
    const std::string text = random_text(rng() % 60);
    const std::string expected = CutByDefinition(text, stops);
    StopMatcher matcher(stops);
    std::string shown, fed;
    while (fed.size() < text.size()) {
      const std::string piece = text.substr(fed.size(), 1 + rng() % (round % 2 == 0 ? 1 : 9));
      fed += piece;
      shown += matcher.Feed(piece);
      if (!matcher.matched()) {
        ASSERT_EQ(shown, fed.substr(0, fed.size() - HoldByDefinition(fed, stops)));
      }
    }
    shown += matcher.Flush();
    ASSERT_EQ(shown, expected);
    ASSERT_EQ(matcher.matched(), expected != text);
    matches += matcher.matched() ? 1 : 0;
  }
  EXPECT_GT(matches, 500);
  EXPECT_LT(matches, 4900);
}

TEST(StopMatcherTest, TimeIsLinearOnTheWorstInput) {
  // A matcher that starts over at each byte would need 256 * 4e6 comparisons per stop string, and
  // one that rescans what it holds back would be quadratic in the pieces.
  std::vector<std::string> stops(16, std::string(255, 'a'));
  for (size_t i = 0; i < stops.size(); ++i) stops[i].push_back(static_cast<char>('b' + i));
  StopMatcher matcher(stops);
  size_t shown = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1'000'000; ++i) shown += matcher.Feed("aaaa").size();
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(shown, 4'000'000u - 255u);
  EXPECT_LT(std::chrono::duration<double>(took).count(), 30.0);
}

}  // namespace
}  // namespace cairn::engine
