#include "retrieval/fusion/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace cairn::retrieval {
namespace {

using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Ids in the order of the chunk numbers.
std::string_view Id(uint32_t, uint32_t chunk) {
  static const std::vector<std::string> ids = [] {
    std::vector<std::string> out;
    for (uint32_t i = 0; i < 100; ++i)
      out.push_back(i < 10 ? "0" + std::to_string(i) : std::to_string(i));
    return out;
  }();
  return ids[chunk];
}

std::vector<uint32_t> Chunks(const std::vector<FusedChunk>& fused) {
  std::vector<uint32_t> out;
  for (const FusedChunk& item : fused) out.push_back(item.chunk);
  return out;
}

TEST(MinMax, OrdinaryAndDegenerateLists) {
  const auto of = [](std::vector<double> scores) { return MinMax(scores); };
  EXPECT_THAT(of({4, 3, 2}), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(of({}), ElementsAre());
  EXPECT_THAT(of({-7}), ElementsAre(1));             // one element
  EXPECT_THAT(of({0, 0, 0}), ElementsAre(1, 1, 1));  // all equal
  EXPECT_THAT(of({5, kNan, 3}), ElementsAre(1, 0, 0));
  EXPECT_THAT(of({kNan, kNan}), ElementsAre(0, 0));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(of({infinity, 2, 1}), ElementsAre(0, 1, 0));
  const std::vector<double> outlier = of({1e300, 3, 2, 1});  // crushed, but in order and finite
  EXPECT_TRUE(std::is_sorted(outlier.rbegin(), outlier.rend()));
  const double most = std::numeric_limits<double>::max();
  EXPECT_THAT(of({most, -most}), ElementsAre(1, 0));  // the difference overflows
}

TEST(Fuse, ConvexIsTheWeightedSum) {
  FusionOptions options;
  options.vector_weight = 0.25;
  const auto fused =
      Fuse(std::vector<ScoredChunk>{{0, 1, 10}, {0, 2, 6}, {0, 3, 2}},
           std::vector<ScoredChunk>{{0, 3, 0.9}, {0, 2, 0.6}, {0, 4, 0.5}}, options, Id);
  ASSERT_EQ(fused.size(), 4u);
  for (const FusedChunk& item : fused) {
    const double lexical = item.lexical ? item.lexical->normalised : 0;
    const double vector = item.vector ? item.vector->normalised : 0;
    EXPECT_EQ(item.score, 0.25 * vector + 0.75 * lexical);
  }
  EXPECT_THAT(Chunks(fused), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(fused[1].lexical->rank, 2);
  EXPECT_EQ(fused[1].vector->rank, 2);
  EXPECT_EQ(fused[2].lexical->normalised, 0);
  EXPECT_EQ(fused[2].vector->normalised, 1);
}

TEST(Fuse, RrfCountsRanksFromOne) {
  FusionOptions options;
  options.kind = FusionOptions::Kind::kRrf;
  const auto fused = Fuse(std::vector<ScoredChunk>{{0, 1, 10}, {0, 2, 6}},
                          std::vector<ScoredChunk>{{0, 2, 0.9}, {0, 3, 0.6}}, options, Id);
  EXPECT_THAT(Chunks(fused), ElementsAre(2, 1, 3));
  EXPECT_EQ(fused[0].score, 1.0 / 61 + 1.0 / 62);
  EXPECT_EQ(fused[1].score, 1.0 / 61);
  EXPECT_EQ(fused[2].score, 1.0 / 62);
}

TEST(Fuse, TiesGoById) {
  FusionOptions options;
  options.kind = FusionOptions::Kind::kRrf;
  const auto fused =
      Fuse(std::vector<ScoredChunk>{{1, 9, 3}}, std::vector<ScoredChunk>{{0, 4, 0.1}}, options, Id);
  EXPECT_THAT(Chunks(fused), ElementsAre(4, 9));
}

TEST(Fuse, OneListKeepsItsScores) {
  const auto fused = Fuse(std::vector<ScoredChunk>{{0, 1, 10}, {0, 2, 6}}, std::nullopt, {}, Id);
  EXPECT_THAT(Chunks(fused), ElementsAre(1, 2));
  EXPECT_EQ(fused[0].score, 10);
  EXPECT_FALSE(fused[0].vector.has_value());
  // A list that was searched and found nothing is another thing: the scores are fused ones.
  const auto empty = Fuse(std::vector<ScoredChunk>{{0, 1, 10}}, std::vector<ScoredChunk>{}, {}, Id);
  EXPECT_EQ(empty[0].score, 0.5);
}

// If rank N of one list is kept and the other list lacks it, so is every earlier rank that the
// other lacks.
TEST(Fuse, WhatOneListRanksHigherIsNotLostFirst) {
  std::mt19937 random(9);
  for (int round = 0; round < 2000; ++round) {
    const auto list = [&](double scale) {
      std::set<uint32_t> chunks;
      while (chunks.size() < 1 + random() % 30) chunks.insert(random() % 60);
      std::vector<ScoredChunk> out;
      for (const uint32_t chunk : chunks) out.push_back({0, chunk, scale * (random() % 20)});
      std::sort(out.begin(), out.end(), [](const ScoredChunk& a, const ScoredChunk& b) {
        return a.score != b.score ? a.score > b.score : a.chunk < b.chunk;
      });
      return out;
    };
    const std::vector<ScoredChunk> lexical = list(1.7), vector = list(0.05);
    FusionOptions options;
    if (random() % 2 == 0) options.kind = FusionOptions::Kind::kRrf;
    options.vector_weight = std::generate_canonical<double, 32>(random);
    const auto fused = Fuse(lexical, vector, options, Id);
    int last_lexical = 0, last_vector = 0;
    for (const FusedChunk& item : fused) {
      if (!item.vector) {
        EXPECT_GT(item.lexical->rank, last_lexical);
        last_lexical = item.lexical->rank;
      }
      if (!item.lexical) {
        EXPECT_GT(item.vector->rank, last_vector);
        last_vector = item.vector->rank;
      }
    }
  }
}

}  // namespace
}  // namespace cairn::retrieval
