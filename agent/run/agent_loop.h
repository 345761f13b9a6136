// AgentLoop carries out a task: plan (the model speaks), act (a tool is called), observe (its
// result goes back), until the model answers in plain text, gives up, or a limit is reached.
//
// Every event is written to the RunStore before it is streamed and before the next step begins.
// Limits are checked before each model call and before each tool call, also among several calls of
// one turn. Arguments are validated against the tool's JSON Schema; what is wrong goes back to the
// model. An identical call is refused.
//
// Threads: thread-safe; each Run is one call. The ports must outlive the loop.
// Errors: INVALID_ARGUMENT for the request, and errors of the store. Everything that happens after
// the run was created ends in a RunFinal (status kFailed with the error in `detail`), not in an
// error status.
#ifndef CAIRN_AGENT_RUN_AGENT_LOOP_H_
#define CAIRN_AGENT_RUN_AGENT_LOOP_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/ports.h"
#include "agent/run/run_types.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

class RunStore;

// Returning false cancels the run.
using RunEventCallback = std::function<bool(std::string_view run_id, const RunEvent&)>;

class AgentLoop {
 public:
  // Builds the tools "search", "fetch_chunk" and "calculator" for each run, and adds `extra_tools`
  // (not owned). INVALID_ARGUMENT when a tool's name or schema is not usable.
  static absl::StatusOr<std::unique_ptr<AgentLoop>> Create(Model* model, Retriever* retriever,
                                                           RunStore* store,
                                                           std::vector<Tool*> extra_tools = {});
  virtual ~AgentLoop() = default;

  struct Outcome {
    std::string run_id;
    RunFinal final;
  };
  virtual absl::StatusOr<Outcome> Run(const RequestContext& context, const RunRequest& request,
                                      const RunEventCallback& on_event) = 0;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_AGENT_LOOP_H_
