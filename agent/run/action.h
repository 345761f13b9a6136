// Reading what a model wrote: tool calls, or plain text.
//
// Calls are <tool_call>{"name": ..., "arguments": {...}}</tool_call> (a closing tag may be missing
// at the end), or, when there is no such tag, fenced ```json blocks or a bare object of that form,
// which Qwen2.5-Coder writes as often. Nothing that looks like a call is dropped, and none is
// repaired into another: what cannot be read becomes a problem that goes back to the model.
// Threads: pure functions.
#ifndef CAIRN_AGENT_RUN_ACTION_H_
#define CAIRN_AGENT_RUN_ACTION_H_

#include <string>
#include <string_view>
#include <vector>

namespace cairn::agent {

struct ProposedCall {
  std::string name;            // may be empty when it could not be read
  std::string arguments_json;  // an object; "{}" when the model gave none at all
  std::string
      problem;  // what is wrong and where, with a short echo; empty when the call could be read
  bool truncated = false;  // the text ends inside the call
};

struct Action {
  std::vector<ProposedCall> calls;  // in the order written
  std::string text;                 // what stands outside the calls, trimmed
};

Action ParseAction(std::string_view output);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_ACTION_H_
