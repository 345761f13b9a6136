#include "common/worker_pool.h"

#include <chrono>

#include "common/check.h"

namespace cairn {
namespace {

// Longer than the serial gaps inside a forward pass (tens of microseconds), shorter than a
// scheduler tick.
constexpr std::chrono::microseconds kSpinTime(100);

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins until `done()` or until kSpinTime has passed; returns done().
template <typename Predicate>
bool Spin(const Predicate& done) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace

WorkerPool::WorkerPool(int size) {
  for (int i = 1; i < size; ++i) threads_.emplace_back([this] { WorkerLoop(); });
}

WorkerPool::~WorkerPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::ParallelFor(int64_t num_tasks, Fn fn) {
  CAIRN_CHECK(num_tasks >= 0 && num_tasks <= UINT32_MAX);
  if (num_tasks <= 1 || threads_.empty() || busy_.test_and_set(std::memory_order_acquire)) {
    for (int64_t task = 0; task < num_tasks; ++task) fn(task);
    return;
  }
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  fn_.store(&fn, std::memory_order_relaxed);
  num_tasks_.store(static_cast<uint32_t>(num_tasks), std::memory_order_relaxed);
  unfinished_.store(static_cast<uint32_t>(num_tasks), std::memory_order_relaxed);
  claim_.store(uint64_t{generation} << 32 | static_cast<uint32_t>(num_tasks),
               std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();

  RunTasks();
  // Only tasks that other threads are in the middle of are waited for.
  const auto finished = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (!Spin(finished)) {
    for (uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) {
      unfinished_.wait(left, std::memory_order_acquire);
    }
  }
  busy_.clear(std::memory_order_release);
}

void WorkerPool::RunTasks() {
  uint64_t claim = claim_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(claim) != 0) {
    const Fn* fn = fn_.load(std::memory_order_relaxed);
    const uint32_t num_tasks = num_tasks_.load(std::memory_order_relaxed);
    // Success proves that the loop of `claim` was still unfinished, so that both values above are
    // its own: the next loop's are written only after every claimed task of this one has ended.
    if (!claim_.compare_exchange_weak(claim, claim - 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    (*fn)(num_tasks - static_cast<uint32_t>(claim));
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_all();
    claim = claim_.load(std::memory_order_acquire);
  }
}

void WorkerPool::WorkerLoop() {
  uint32_t seen = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    RunTasks();
    const auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!Spin(changed)) generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
  }
}

}  // namespace cairn
