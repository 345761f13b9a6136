// WorkerPool: a fixed set of threads that share out the tasks of one loop at a time.
//
// The caller takes part, so a pool of size 1 owns no thread. Tasks are claimed one by one from a
// shared counter: a core that is busy with something else claims fewer, and the loop ends when the
// tasks end, not when every thread has turned up. Idle threads spin for a short while, since the
// loops of a forward pass follow one another within microseconds, and then sleep.
//
// Threads: thread-safe. One loop at a time has the threads; a loop that starts meanwhile (from
// another
//          thread, or from inside a task) is run by its caller alone.
// Memory:  what the caller wrote before ParallelFor is visible to the tasks; what they wrote is
// visible to
//          the caller after it.
#ifndef CAIRN_COMMON_WORKER_POOL_H_
#define CAIRN_COMMON_WORKER_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace cairn {

class WorkerPool {
 public:
  // `size` counts the caller; values below 1 mean 1.
  explicit WorkerPool(int size);
  ~WorkerPool();  // REQUIRES: no ParallelFor is running.

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls fn(task) once for each task in [0, num_tasks), in no particular order, and returns when
  // all calls have returned. Tasks must not throw. REQUIRES: num_tasks < 2^32.
  void ParallelFor(int64_t num_tasks, absl::FunctionRef<void(int64_t)> fn);

 private:
  using Fn = absl::FunctionRef<void(int64_t)>;

  void WorkerLoop();
  // Claims and runs tasks of the current loop until none is left.
  void RunTasks();

  // The loop at hand: {generation : 32, unclaimed tasks : 32}. A claim is a compare-and-swap of the
  // whole word, so it cannot succeed on a loop other than the one whose `fn_` and `num_tasks_` were
  // read before.
  std::atomic<uint64_t> claim_{0};
  std::atomic<const Fn*> fn_{nullptr};
  std::atomic<uint32_t> num_tasks_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};  // what sleeping threads wait on
  std::atomic<bool> stopping_{false};
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::vector<std::thread> threads_;
};

}  // namespace cairn

#endif  // CAIRN_COMMON_WORKER_POOL_H_
