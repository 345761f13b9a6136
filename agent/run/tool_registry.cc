#include "agent/run/tool_registry.h"

#include <algorithm>
#include <utility>

#include "agent/schema/json_text.h"
#include "common/strings.h"

namespace cairn::agent {
namespace {

constexpr std::string_view kGiveUpDescription =
    "Ends the work when the task cannot be done: says what is known so far and what is missing.";
constexpr std::string_view kGiveUpSchema = R"({"type": "object", "properties": {
    "answer": {"type": "string", "maxLength": 4000, "description": "the best answer so far, may be empty"},
    "missing": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "what could not be found or done"}},
    "required": ["missing"], "additionalProperties": false})";

bool IsName(std::string_view name) {
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), good);
}

}  // namespace

absl::StatusOr<ToolRegistry> ToolRegistry::Create(const std::vector<Tool*>& tools) {
  ToolRegistry registry;
  Json list = Json::array();
  const auto add = [&](std::string_view name, std::string_view description,
                       std::string_view schema) -> absl::Status {
    if (!IsName(name))
      return absl::InvalidArgumentError(StrCat("\"", name, "\" is not a tool name"));
    absl::StatusOr<std::unique_ptr<JsonSchema>> compiled = JsonSchema::Compile(schema);
    if (!compiled.ok()) return Annotate(compiled.status(), StrCat("tool ", name));
    if (!registry.schemas_.emplace(name, *std::move(compiled)).second) {
      return absl::InvalidArgumentError(StrCat("two tools are called ", name));
    }
    CAIRN_ASSIGN_OR_RETURN(Json parameters, ParseJson(schema));
    list.push_back(
        {{"type", "function"},
         {"function",
          {{"name", name}, {"description", description}, {"parameters", std::move(parameters)}}}});
    StrAppend(&registry.names_, registry.names_.empty() ? "" : ", ", name);
    return absl::OkStatus();
  };
  for (Tool* tool : tools) {
    CAIRN_RETURN_IF_ERROR(add(tool->name(), tool->description(), tool->parameters_schema()));
    registry.tools_.emplace(tool->name(), tool);
  }
  CAIRN_RETURN_IF_ERROR(add(kGiveUp, kGiveUpDescription, kGiveUpSchema));
  registry.tools_json_ = DumpJson(list);
  return registry;
}

Tool* ToolRegistry::Find(std::string_view name) const {
  const auto it = tools_.find(std::string(name));
  return it == tools_.end() ? nullptr : it->second;
}

absl::StatusOr<std::string> ToolRegistry::Validate(std::string_view name,
                                                   std::string_view arguments_json) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<SchemaViolation> violations,
                         schemas_.at(std::string(name))->Validate(arguments_json));
  std::string text;
  for (const SchemaViolation& v : violations) {
    StrAppend(&text, text.empty() ? "" : "\n", v.path.empty() ? "arguments" : v.path, ": ",
              v.message);
  }
  return text;
}

}  // namespace cairn::agent
