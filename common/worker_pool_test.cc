#include "common/worker_pool.h"

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cairn {
namespace {

class WorkerPoolTest : public testing::TestWithParam<int> {};

TEST_P(WorkerPoolTest, RunsEveryTaskOnce) {
  WorkerPool pool(GetParam());
  for (int64_t n : {0, 1, 2, 7, 1000}) {
    std::vector<int> runs(
        n, 0);  // plain ints: a task that ran twice or unsynchronised shows under TSan
    pool.ParallelFor(n, [&](int64_t task) { ++runs[task]; });
    EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), int64_t{0}), n);
    for (int r : runs) EXPECT_EQ(r, 1);
  }
}

TEST_P(WorkerPoolTest, ManyShortLoopsSeeTheirOwnFunction) {
  WorkerPool pool(GetParam());
  for (int loop = 0; loop < 20000; ++loop) {
    const int n = 1 + loop % 5;
    int out[5] = {};
    pool.ParallelFor(n, [&, loop](int64_t task) { out[task] = loop + 1; });
    for (int i = 0; i < 5; ++i) ASSERT_EQ(out[i], i < n ? loop + 1 : 0) << loop;
  }
}

TEST_P(WorkerPoolTest, WakesAfterSleep) {
  WorkerPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin
    std::atomic<int> sum = 0;
    pool.ParallelFor(10, [&](int64_t task) { sum += static_cast<int>(task); });
    EXPECT_EQ(sum, 45);
  }
}

TEST_P(WorkerPoolTest, NestedAndConcurrentLoopsFinish) {
  WorkerPool pool(GetParam());
  std::atomic<int> count = 0;
  const auto outer = [&] {
    for (int i = 0; i < 200; ++i) {
      pool.ParallelFor(4, [&](int64_t) { pool.ParallelFor(3, [&](int64_t) { ++count; }); });
    }
  };
  std::thread a(outer), b(outer);
  a.join();
  b.join();
  EXPECT_EQ(count, 2 * 200 * 12);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WorkerPoolTest, testing::Values(0, 1, 2, 4));

TEST(WorkerPoolTest, SecondThreadTakesPart) {
  WorkerPool pool(2);
  // Each task waits for the other one, so the loop ends only if two threads run it.
  std::atomic<int> arrived = 0;
  pool.ParallelFor(2, [&](int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

}  // namespace
}  // namespace cairn
