// The plain data of an agent run: request, limits, steps, result.
#ifndef CAIRN_AGENT_RUN_RUN_TYPES_H_
#define CAIRN_AGENT_RUN_RUN_TYPES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace cairn::agent {

// Checked before each step; none is soft. A turn is one call of the model.
struct RunLimits {
  int max_turns = 12;
  int max_tool_calls = 20;
  int max_tokens = 60000;  // prompt and completion tokens of all turns together
  absl::Duration max_time = absl::Minutes(10);
  int max_tokens_per_turn = 400;
  int max_consecutive_errors = 3;  // invalid calls, failed tools and refusals in a row
};

struct RunRequest {
  std::string task;
  std::string collection;
  RunLimits limits;
  float temperature = 0;
  uint64_t seed = 0;
};

struct RunUsage {
  int turns = 0;
  int tool_calls = 0;  // calls that reached a tool
  int prompt_tokens = 0;
  int completion_tokens = 0;
  absl::Duration elapsed;
};

struct StepStarted {
  int turn = 0;
};
struct ModelOutput {
  std::string text;  // as generated
  int prompt_tokens = 0;
  int completion_tokens = 0;
};
struct ToolCall {
  std::string call_id;  // unique within the run
  std::string name;
  std::string arguments_json;  // validated
};
struct ToolResult {
  std::string call_id;
  std::string name;
  bool ok = false;
  std::string text;  // what the model sees
};
// An action that was not carried out, and what the model was told.
struct Refused {
  // "MALFORMED_CALL", "UNKNOWN_TOOL", "INVALID_ARGUMENTS", "REPEATED_CALL", "EMPTY_OUTPUT",
  // "TRUNCATED_CALL"
  std::string reason;
  std::string call_id;  // empty when no call could be read
  std::string name;
  std::string message;
};

enum class RunStatus { kRunning, kCompleted, kGaveUp, kLimit, kFailed, kCancelled };
// "running", "completed", "gave_up", "limit", "failed", "cancelled".
const char* RunStatusName(RunStatus status);

struct RunFinal {
  RunStatus status = RunStatus::kFailed;
  std::string answer;   // the best there is; may be empty
  std::string missing;  // what the answer lacks, when not completed
  std::string detail;   // which limit, or the error
  RunUsage usage;
};

using RunEvent = std::variant<StepStarted, ModelOutput, ToolCall, ToolResult, Refused, RunFinal>;

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_RUN_TYPES_H_
