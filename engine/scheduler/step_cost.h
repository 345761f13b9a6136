// StepCost learns what a step costs on this machine: seconds = base + per_row * rows.
//
// A least-squares line through the steps seen, each weighing a little less than the next, so that
// it follows longer contexts and busier neighbours. From it come two decisions: how many prompt
// tokens a step may carry while others stream, and how many guesses are worth verifying.
//
// Threads: thread-compatible.
#ifndef CAIRN_ENGINE_SCHEDULER_STEP_COST_H_
#define CAIRN_ENGINE_SCHEDULER_STEP_COST_H_

#include "absl/time/time.h"

namespace cairn::engine {

class StepCost {
 public:
  // A step of `num_rows` > 0 rows took `duration`.
  void Observe(int num_rows, absl::Duration duration);

  // Rows that can be added to `num_rows` without a step longer than `bound`; 0 when it is exceeded
  // already. Before anything was observed, `fallback`.
  int RowsWithin(absl::Duration bound, int num_rows, int fallback) const;

  // What one more row costs, as a share of a step of one row: in [0.01, 1].
  double RowShare() const;

 private:
  struct Line {
    double base = 0, per_row = 0;  // seconds
  };
  Line Fit() const;

  // Sums over the steps, decayed: of weights, rows, rows^2, seconds, rows * seconds.
  double w_ = 0, n_ = 0, nn_ = 0, t_ = 0, nt_ = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_STEP_COST_H_
