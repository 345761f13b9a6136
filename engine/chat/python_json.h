// JSON written as Python's json.dumps(value, ensure_ascii=False) writes it, which is what the
// tojson filter of chat templates is: ", " and ": " between, keys in their order, floats as repr()
// gives them.
#ifndef CAIRN_ENGINE_CHAT_PYTHON_JSON_H_
#define CAIRN_ENGINE_CHAT_PYTHON_JSON_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cairn::engine {

// INVALID_ARGUMENT for text that is no JSON, not of the kind named, nested deeper than 64 levels,
// or with a number that no 64-bit type holds.
absl::StatusOr<std::string> PythonJsonObject(std::string_view json);
// Each element of an array by itself.
absl::StatusOr<std::vector<std::string>> PythonJsonElements(std::string_view json);

// As repr(float) writes it: the shortest digits that give the value back.
std::string PythonFloat(double value);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CHAT_PYTHON_JSON_H_
