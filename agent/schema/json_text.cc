#include "agent/schema/json_text.h"

#include <set>
#include <vector>

#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::agent {

absl::StatusOr<Json> ParseJson(std::string_view text, int max_depth) {
  std::vector<std::set<std::string>> keys;  // of the objects and arrays that are open
  bool too_deep = false;
  std::string duplicate;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= max_depth) too_deep = true;
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys.back().insert(parsed.get<std::string>()).second)
          duplicate = parsed.get<std::string>();
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), watch);
    if (too_deep) return absl::InvalidArgumentError(StrCat("JSON nested deeper than ", max_depth));
    if (!duplicate.empty()) {
      return absl::InvalidArgumentError(StrCat("duplicate key \"", duplicate.substr(0, 64), "\""));
    }
    return json;
  } catch (const Json::parse_error& error) {
    return absl::InvalidArgumentError(StrCat("not valid JSON at byte ", error.byte));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        StrCat("not valid JSON: ", std::string_view(error.what()).substr(0, 120)));
  }
}

size_t JsonObjectExtent(std::string_view text) {
  if (text.empty() || text[0] != '{') return 0;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return 0;
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string DumpJsonBounded(const Json& json, size_t max_bytes) {
  std::string text = DumpJson(json);
  if (text.size() <= max_bytes) return text;
  text.resize(Utf8Floor(text, max_bytes));
  return text + "...";
}

}  // namespace cairn::agent
