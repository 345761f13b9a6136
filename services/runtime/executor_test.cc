#include "services/runtime/executor.h"

#include <atomic>
#include <barrier>

#include "absl/synchronization/notification.h"
#include "common/status.h"
#include "gtest/gtest.h"

namespace cairn::services {
namespace {

TEST(Executor, RefusesWhatDoesNotFitAndKeepsWhatItAdmitted) {
  std::atomic<int> ran = 0;
  absl::Notification started, release;
  {
    Executor executor("test", {.num_threads = 1, .max_queued = 2});
    ASSERT_TRUE(executor
                    .Submit([&] {
                      started.Notify();
                      release.WaitForNotification();
                      ++ran;
                    })
                    .ok());
    started.WaitForNotification();
    EXPECT_TRUE(executor.Submit([&] { ++ran; }).ok());
    EXPECT_TRUE(executor.Submit([&] { ++ran; }).ok());
    EXPECT_EQ(executor.num_running(), 1);
    EXPECT_EQ(executor.num_queued(), 2);

    const absl::Status full = executor.Submit([&] { ++ran; });
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
    EXPECT_TRUE(RetryAfterOf(full).has_value());
    EXPECT_EQ(executor.num_queued(), 2);
    release.Notify();
  }
  EXPECT_EQ(ran, 3);  // the destructor ran what was admitted
}

TEST(Executor, RunsAsManyTogetherAsItHasThreads) {
  std::barrier all_here(3);
  Executor executor("test", {.num_threads = 3, .max_queued = 3});
  for (int i = 0; i < 3; ++i) {
    // Returns only when all three are here at once.
    ASSERT_TRUE(executor.Submit([&] { all_here.arrive_and_wait(); }).ok());
  }
}

}  // namespace
}  // namespace cairn::services
