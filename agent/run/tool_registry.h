// ToolRegistry: the tools of one run with their compiled schemas, and what the model is told about
// them. Threads: thread-compatible.
#ifndef CAIRN_AGENT_RUN_TOOL_REGISTRY_H_
#define CAIRN_AGENT_RUN_TOOL_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/ports.h"
#include "agent/schema/json_schema.h"
#include "common/status.h"

namespace cairn::agent {

// The action by which a model ends a run without an answer. Its arguments: answer (may be empty),
// missing.
inline constexpr std::string_view kGiveUp = "give_up";

class ToolRegistry {
 public:
  // `tools` must outlive the registry. INVALID_ARGUMENT for a name that is not [a-zA-Z0-9_-]{1,64},
  // is taken or is "give_up", and for a schema that JsonSchema refuses.
  static absl::StatusOr<ToolRegistry> Create(const std::vector<Tool*>& tools);

  // Null when there is no such tool. give_up has none.
  Tool* Find(std::string_view name) const;
  bool Knows(std::string_view name) const { return schemas_.count(std::string(name)) != 0; }
  // What is wrong with the arguments, one violation a line; empty when they are valid. REQUIRES:
  // Knows(name).
  absl::StatusOr<std::string> Validate(std::string_view name,
                                       std::string_view arguments_json) const;
  // "search, fetch_chunk, calculator, give_up".
  const std::string& names() const { return names_; }
  // For ModelRequest::tools_json.
  const std::string& tools_json() const { return tools_json_; }

 private:
  std::map<std::string, Tool*> tools_;
  std::map<std::string, std::unique_ptr<const JsonSchema>> schemas_;
  std::string names_;
  std::string tools_json_;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_TOOL_REGISTRY_H_
