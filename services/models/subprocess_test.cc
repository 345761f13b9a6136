#include "services/models/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

using ::testing::HasSubstr;

RequestContext Now() { return RequestContext::Background(); }

TEST(RunCommandTest, GivesOutputAndExitCode) {
  const auto result = RunCommand(Now(), {.argv = {"sh", "-c", "echo out; echo err >&2; exit 3"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
}

TEST(RunCommandTest, ArgumentsAreNotReadByAShell) {
  const auto result = RunCommand(Now(), {.argv = {"printf", "%s|", "$HOME; echo x", "a b", "*"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "$HOME; echo x|a b|*|");
}

TEST(RunCommandTest, EnvironmentIsOursWithChanges) {
  setenv("CAIRN_TEST_KEPT", "kept", 1);
  setenv("CAIRN_TEST_CHANGED", "old", 1);
  const auto result =
      RunCommand(Now(), {.argv = {"sh", "-c", "echo $CAIRN_TEST_KEPT $CAIRN_TEST_CHANGED"},
                         .environment = {{"CAIRN_TEST_CHANGED", "new"}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "kept new\n");
}

TEST(RunCommandTest, MissingProgram) {
  const auto result = RunCommand(Now(), {.argv = {"cairn-no-such-program"}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cairn-no-such-program"));
}

TEST(RunCommandTest, SignalsShowInTheExitCode) {
  const auto result = RunCommand(Now(), {.argv = {"sh", "-c", "kill -9 $$"}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 128 + 9);
}

TEST(RunCommandTest, LongOutputKeepsItsEnd) {
  const auto result = RunCommand(
      Now(), {.argv = {"sh", "-c", "yes x | head -c 1000000; echo END"}, .max_output = 100});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output.size(), 100u);
  EXPECT_THAT(result->output, HasSubstr("END"));
}

// Runs a command that would take minutes, with a child of its own whose id it prints; true when
// both are gone soon after the status came back.
void ExpectEnded(const RequestContext& context, absl::Duration timeout, absl::StatusCode code) {
  const std::string pid_file = StrCat(::testing::TempDir(), "/subprocess_test.", getpid());
  const absl::Time start = absl::Now();
  const auto result = RunCommand(
      context, {.argv = {"sh", "-c", StrCat("sleep 300 & echo $! > ", pid_file, "; wait")},
                .timeout = timeout});
  EXPECT_EQ(result.status().code(), code);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  FILE* file = std::fopen(pid_file.c_str(), "r");
  ASSERT_NE(file, nullptr);
  int pid = 0;
  ASSERT_EQ(std::fscanf(file, "%d", &pid), 1);
  std::fclose(file);
  unlink(pid_file.c_str());
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {
    gone = kill(pid, 0) != 0;
    // An orphan stays a zombie until init reaps it, and containers may have no such init.
    FILE* stat = std::fopen(StrCat("/proc/", pid, "/stat").c_str(), "r");
    if (stat == nullptr) break;
    char state = ' ';
    if (std::fscanf(stat, "%*d %*s %c", &state) == 1 && state == 'Z') gone = true;
    std::fclose(stat);
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(gone || kill(pid, 0) != 0) << "process " << pid << " outlived its group";
}

TEST(RunCommandTest, TimeoutEndsTheWholeGroup) {
  ExpectEnded(Now(), absl::Milliseconds(500), absl::StatusCode::kDeadlineExceeded);
}

TEST(RunCommandTest, CancellationEndsTheWholeGroup) {
  CancelSource source;
  std::thread canceller([&] {
    absl::SleepFor(absl::Milliseconds(500));
    source.Cancel();
  });
  ExpectEnded(RequestContext(source), absl::InfiniteDuration(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST(RunCommandTest, StubbornProgramsAreKilled) {
  const absl::Time start = absl::Now();
  const auto result =
      RunCommand(Now(), {.argv = {"sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"},
                         .timeout = absl::Milliseconds(300)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(RunCommandTest, ADaemonLeftBehindDoesNotHoldTheCall) {
  const absl::Time start = absl::Now();
  const auto result = RunCommand(Now(), {.argv = {"sh", "-c", "sleep 5 & echo done"}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output, "done\n");
  EXPECT_LT(absl::Now() - start, absl::Seconds(4));
}

TEST(RunCommandTest, TicksWhileItRuns) {
  int ticks = 0;
  ASSERT_TRUE(RunCommand(Now(), {.argv = {"sleep", "1"}, .on_tick = [&] { ++ticks; }}).ok());
  EXPECT_GE(ticks, 2);
}

}  // namespace
}  // namespace cairn::services
