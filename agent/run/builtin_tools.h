// The tools every run has: search, fetch_chunk, calculator. All are pure: calling one twice does no
// harm.
#ifndef CAIRN_AGENT_RUN_BUILTIN_TOOLS_H_
#define CAIRN_AGENT_RUN_BUILTIN_TOOLS_H_

#include <memory>
#include <string>
#include <vector>

#include "agent/ports.h"

namespace cairn::agent {

// For one run over one collection. `retriever` must outlive the tools.
std::vector<std::unique_ptr<Tool>> BuiltinTools(Retriever* retriever, std::string collection);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_BUILTIN_TOOLS_H_
