#include "retrieval/rerank/rerank.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cairn::retrieval {
namespace {

TEST(Interpolate, IsTheWeightedSum) {
  const std::vector<double> fused = {0.9, 0.8, 0.1};
  const std::vector<float> logits = {-3.0f, 4.0f};
  const auto scores = Interpolate(fused, logits, 0.5);
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_DOUBLE_EQ(scores[0].normalised, 1 / (1 + std::exp(3.0)));
  EXPECT_EQ(scores[1].score, 0.5 * scores[1].normalised + 0.5 * 0.8);
  EXPECT_GT(scores[1].score, scores[0].score);
  EXPECT_EQ(scores[2].normalised, 0);
  EXPECT_EQ(scores[2].score, 0.5 * 0.0 + 0.5 * 0.1);
}

TEST(Interpolate, UnscoredCandidatesStayBelow) {
  const std::vector<double> fused = {0.9, 0.7, 0.7, 0.2};
  const std::vector<float> logits = {-100.0f, -1000.0f};  // as irrelevant as can be
  for (const double weight : {0.0, 0.3, 1.0}) {
    const auto scores = Interpolate(fused, logits, weight);
    for (size_t scored : {0, 1}) {
      for (size_t unscored : {2, 3}) EXPECT_GE(scores[scored].score, scores[unscored].score);
    }
  }
}

TEST(Interpolate, WeightZeroChangesNothing) {
  const std::vector<double> fused = {0.9, 0.7};
  const std::vector<float> logits = {-1.0f, 1.0f};
  const auto scores = Interpolate(fused, logits, 0);
  EXPECT_EQ(scores[0].score, 0.9);
  EXPECT_EQ(scores[1].score, 0.7);
}

}  // namespace
}  // namespace cairn::retrieval
