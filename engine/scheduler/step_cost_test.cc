#include "engine/scheduler/step_cost.h"

#include <random>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

absl::Duration Cost(double base_ms, double row_ms, int rows) {
  return absl::Milliseconds(base_ms + row_ms * rows);
}

TEST(StepCostTest, SaysWhatFitsOnceItHasSeenSteps) {
  StepCost cost;
  EXPECT_EQ(cost.RowsWithin(absl::Milliseconds(100), 1, 7), 7);
  for (const int rows : {1, 1, 1, 33, 1, 65}) cost.Observe(rows, Cost(50, 2, rows));
  EXPECT_NEAR(cost.RowsWithin(absl::Milliseconds(250), 4, 7), (250 - 50 - 8) / 2, 1);
  EXPECT_EQ(cost.RowsWithin(absl::Milliseconds(55), 4, 7), 0);
  EXPECT_NEAR(cost.RowShare(), 2.0 / 52, 0.01);
}

TEST(StepCostTest, StepsOfOneSizeGiveNothingAway) {
  StepCost cost;
  for (int i = 0; i < 10; ++i) cost.Observe(4, absl::Milliseconds(100));
  // 25 ms a row at most, so no more rows than that allows.
  EXPECT_EQ(cost.RowsWithin(absl::Milliseconds(250), 4, 7), 6);
}

// Streams beside prompts, on a machine whose costs drift and jitter by a tenth: the bound, counted
// in the costs of steps, holds but for the first step and a tenth of it.
TEST(StepCostTest, MixedStepsKeepTheStallBound) {
  std::mt19937 rng(3);
  for (int round = 0; round < 20; ++round) {
    StepCost cost;
    double base = 20 + static_cast<double>(rng() % 60),
           row = 0.5 + static_cast<double>(rng() % 40) / 10;
    const absl::Duration bound = absl::Milliseconds(250);
    for (int step = 0; step < 400; ++step) {
      const int streams = 1 + static_cast<int>(rng() % 8);
      const int prompt = rng() % 3 == 0 ? 0 : std::max(1, cost.RowsWithin(bound, streams, 16));
      const double jitter = 0.9 + static_cast<double>(rng() % 200) / 1000;
      const absl::Duration took = Cost(base, row, streams + prompt) * jitter;
      cost.Observe(streams + prompt, took);
      if (step > 3 && prompt > 1) {
        EXPECT_LT(took, bound * 1.35) << step;
      }
      row *= 1.0005;  // contexts grow
    }
  }
}

}  // namespace
}  // namespace cairn::engine
