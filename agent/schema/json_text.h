// Strict reading of JSON that came from a model or a user, over nlohmann/json. Include it in .cc
// files only.
#ifndef CAIRN_AGENT_SCHEMA_JSON_TEXT_H_
#define CAIRN_AGENT_SCHEMA_JSON_TEXT_H_

#include <string>
#include <string_view>

#include "common/status.h"
#include "nlohmann/json.hpp"

namespace cairn::agent {

using Json = nlohmann::json;

// One JSON text, whole. INVALID_ARGUMENT with the byte position for a syntax error, ill-formed
// UTF-8, a duplicate key (readers disagree about which one counts), a number beyond the range of a
// double, or nesting deeper than `max_depth`.
absl::StatusOr<Json> ParseJson(std::string_view text, int max_depth = 64);

// The size of the object at the start of `text` ('{' to its matching '}', strings respected), or 0
// when `text` does not start with '{' or the object does not end. What is inside is not checked.
size_t JsonObjectExtent(std::string_view text);

// Compact text; ill-formed UTF-8 becomes U+FFFD.
std::string DumpJson(const Json& json);

// At most about `max_bytes` of the compact text, cut between characters with "..." behind.
std::string DumpJsonBounded(const Json& json, size_t max_bytes);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_SCHEMA_JSON_TEXT_H_
