#include "retrieval/types.h"

#include <gtest/gtest.h>

#include <random>

namespace cairn::retrieval {
namespace {

// "a&amp;b" + markup + "cd": text "a&bcd".
SourceMap Example() {
  return SourceMap({{0, 1, 10, 1}, {1, 1, 11, 5}, {2, 1, 16, 1}, {3, 2, 30, 2}});
}

TEST(SourceMap, MapsInsideEqualRunsAndWholeOverOthers) {
  const SourceMap map = Example();
  EXPECT_EQ(map.ToSource({0, 1}), (Span{10, 11}));
  EXPECT_EQ(map.ToSource({1, 2}), (Span{11, 16}));
  EXPECT_EQ(map.ToSource({0, 3}), (Span{10, 17}));
  EXPECT_EQ(map.ToSource({4, 5}), (Span{31, 32}));
  EXPECT_EQ(map.ToSource({2, 4}), (Span{16, 31}));
}

TEST(SourceMap, TextWithoutSourceIsAPoint) {
  const SourceMap map({{0, 4, 100, 4}, {5, 4, 200, 4}});  // text[4] was inserted
  EXPECT_EQ(map.ToSource({4, 5}), (Span{104, 104}));
  EXPECT_EQ(map.ToSource({4, 6}), (Span{200, 201}));
  EXPECT_EQ(map.ToSource({3, 5}), (Span{103, 104}));
  EXPECT_EQ(SourceMap().ToSource({0, 0}), (Span{0, 0}));
  EXPECT_EQ(map.ToSource({0, 0}), (Span{100, 100}));
}

TEST(SourceMap, IdentityAndEmpty) {
  EXPECT_EQ(SourceMap::Identity(7, 10).ToSource({2, 5}), (Span{9, 12}));
  EXPECT_TRUE(SourceMap::Identity(7, 0).runs().empty());
}

TEST(SourceMap, SerializeRoundTripsAndHostileBytesAreRefused) {
  const SourceMap map({{0, 1, uint64_t{1} << 40, 1}, {900, 3, (uint64_t{1} << 40) + 5, 7}});
  SourceMap back;
  ASSERT_TRUE(SourceMap::Parse(map.Serialize(), &back));
  ASSERT_EQ(back.runs().size(), 2u);
  EXPECT_EQ(back.ToSource({900, 903}), map.ToSource({900, 903}));
  EXPECT_EQ(back.Serialize(), map.Serialize());

  EXPECT_FALSE(SourceMap::Parse("\x01", &back));                   // cut off
  EXPECT_FALSE(SourceMap::Parse(std::string(40, '\xFF'), &back));  // overlong
  // Sums that wrap around 2^64.
  const std::string max = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
  EXPECT_FALSE(SourceMap::Parse(max + max + std::string(2, '\0'), &back));
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 20, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    SourceMap parsed;
    if (SourceMap::Parse(bytes, &parsed)) {
      EXPECT_TRUE(SourceMap::Parse(parsed.Serialize(), &back));
    }
  }
}

}  // namespace
}  // namespace cairn::retrieval
