#include "common/context.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"

namespace cairn {
namespace {

TEST(RequestContextTest, CancelReachesCopiesAndCallbacks) {
  CancelSource source;
  RequestContext context(source);
  RequestContext copy = context.WithTimeout(absl::Hours(1));
  int calls = 0;
  CancelRegistration kept = copy.OnCancel([&] { ++calls; });
  {
    CancelRegistration dropped = copy.OnCancel([&] { calls += 100; });
  }
  EXPECT_TRUE(copy.Check().ok());
  source.Cancel();
  source.Cancel();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(copy.Check().code(), absl::StatusCode::kCancelled);
  CancelRegistration late = context.OnCancel([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

// What the callback wrote may be read once its registration is gone, whoever cancelled and when:
// for the thread sanitizer.
TEST(RequestContextTest, NoCallbackRunsAfterItsRegistration) {
  for (int round = 0; round < 200; ++round) {
    CancelSource source;
    RequestContext context(source);
    int calls = 0;
    std::thread canceller([&] { source.Cancel(); });
    {
      CancelRegistration registration = context.OnCancel([&] { ++calls; });
    }
    EXPECT_LE(calls, 1);
    const int calls_then = calls;
    canceller.join();
    EXPECT_EQ(calls, calls_then);
  }
}

TEST(RequestContextTest, DeadlineOnlyShrinks) {
  RequestContext context =
      RequestContext::Background().WithDeadline(absl::Now() - absl::Seconds(1));
  EXPECT_EQ(context.WithTimeout(absl::Hours(1)).Check().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace cairn
