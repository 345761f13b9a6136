#include "engine/scheduler/step_cost.h"

#include <algorithm>
#include <cmath>

namespace cairn::engine {
namespace {

// A step keeps half its weight for some 70 steps: a few seconds of decoding.
constexpr double kDecay = 0.99;
constexpr double kMinShare = 0.01;
// Until steps of different sizes were seen: decoding on a CPU is bound by reading the weights, a
// further row by arithmetic.
constexpr double kFirstShare = 0.15;

}  // namespace

void StepCost::Observe(int num_rows, absl::Duration duration) {
  const double n = num_rows;
  const double t = absl::ToDoubleSeconds(duration);
  w_ = w_ * kDecay + 1;
  n_ = n_ * kDecay + n;
  nn_ = nn_ * kDecay + n * n;
  t_ = t_ * kDecay + t;
  nt_ = nt_ * kDecay + n * t;
}

StepCost::Line StepCost::Fit() const {
  const double spread = nn_ - n_ * n_ / w_;
  // Steps of one size say nothing about a row: all of it is taken for a share of the rows.
  if (spread < 0.25 * w_) return {.base = 0, .per_row = t_ / n_};
  const double per_row = std::max((nt_ - n_ * t_ / w_) / spread, 0.0);
  const double base = (t_ - per_row * n_) / w_;
  if (base < 0) return {.base = 0, .per_row = nt_ / nn_};
  return {base, per_row};
}

int StepCost::RowsWithin(absl::Duration bound, int num_rows, int fallback) const {
  if (w_ == 0) return fallback;
  const Line line = Fit();
  const double left = absl::ToDoubleSeconds(bound) - line.base - line.per_row * num_rows;
  if (left <= 0) return 0;
  constexpr double kMaxRows = 1 << 20;
  return static_cast<int>(line.per_row <= 0 ? kMaxRows
                                            : std::min(std::floor(left / line.per_row), kMaxRows));
}

double StepCost::RowShare() const {
  if (w_ == 0 || nn_ - n_ * n_ / w_ < 0.25 * w_) return kFirstShare;
  const Line line = Fit();
  return std::clamp(line.per_row / (line.base + line.per_row), kMinShare, 1.0);
}

}  // namespace cairn::engine
