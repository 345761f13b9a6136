#include "retrieval/rerank/rerank.h"

#include <gtest/gtest.h>

namespace cairn::retrieval {
namespace {

TEST(Interpolate, IsTheWeightedSum) {
  const std::vector<double> fused = {0.9, 0.8, 0.7, 0.1};
  const std::vector<float> logits = {-3.0f, 5.0f, -1.0f};
  const auto scores = Interpolate(fused, logits, 0.25);
  ASSERT_EQ(scores.size(), 4u);
  const std::vector<double> normalised = {0, 1, 0.25, 0};
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].normalised, normalised[i]);
    EXPECT_EQ(scores[i].score, 0.25 * normalised[i] + (1 - 0.25) * fused[i]);
  }
}

TEST(Interpolate, OneLogitAndEqualLogitsKeepTheOrder) {
  const std::vector<double> fused = {0.9, 0.8};
  for (const std::vector<float>& logits :
       {std::vector<float>{-7.0f}, std::vector<float>{2.0f, 2.0f}}) {
    const auto scores = Interpolate(fused, logits, 0.5);
    EXPECT_GT(scores[0].score, scores[1].score);
  }
  EXPECT_EQ(Interpolate(fused, {}, 0.5)[0].normalised, 0);
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
