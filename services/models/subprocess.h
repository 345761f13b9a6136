// RunCommand: runs a program with an argument list (no shell) and waits for it.
//
// The child gets its own process group and /dev/null as input; standard output and error are
// captured together, the last `max_output` bytes of them. The group is ended (SIGTERM, then SIGKILL
// after 2 s) when the context is cancelled or its deadline or the timeout passes.
//
// Threads: thread-safe; blocks the caller.
#ifndef CAIRN_SERVICES_MODELS_SUBPROCESS_H_
#define CAIRN_SERVICES_MODELS_SUBPROCESS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/context.h"
#include "common/status.h"

namespace cairn::services {

struct Command {
  std::vector<std::string> argv;                                 // argv[0] is looked up on PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  absl::Duration timeout = absl::InfiniteDuration();
  size_t max_output = 64 << 10;
  std::function<void()> on_tick;  // called about four times a second while the program runs
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal number when a signal ended it
  std::string output;
};

// NOT_FOUND when the program is not on PATH, CANCELLED or DEADLINE_EXCEEDED when it was ended;
// otherwise the result, whatever the exit code.
absl::StatusOr<CommandResult> RunCommand(const RequestContext& context, const Command& command);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_MODELS_SUBPROCESS_H_
