#include "engine/chat/python_json.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/strings.h"

namespace cairn::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

// Brackets outside of strings, counted before the parser builds anything.
bool IsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

absl::StatusOr<Json> Parse(std::string_view json) {
  if (IsTooDeep(json)) {
    return absl::InvalidArgumentError(StrCat("JSON is nested deeper than ", kMaxDepth, " levels"));
  }
  try {
    return Json::parse(json.begin(), json.end());
  } catch (const std::exception& error) {  // parse_error, and out_of_range for a huge number
    return absl::InvalidArgumentError(StrCat("not valid JSON: ", error.what()));
  }
}

void AppendString(const std::string& text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\f':
        *out += "\\f";
        break;
      case '\b':
        *out += "\\b";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          StrAppend(out, "\\u00", std::string(1, kHex[c >> 4]), std::string(1, kHex[c & 15]));
        } else {
          *out += c;
        }
    }
  }
  *out += '"';
}

void AppendValue(const Json& value, std::string* out) {
  std::string_view separator = "";
  switch (value.type()) {
    case Json::value_t::object:
      *out += '{';
      for (const auto& [key, member] : value.items()) {
        *out += separator;
        AppendString(key, out);
        *out += ": ";
        AppendValue(member, out);
        separator = ", ";
      }
      *out += '}';
      return;
    case Json::value_t::array:
      *out += '[';
      for (const Json& element : value) {
        *out += separator;
        AppendValue(element, out);
        separator = ", ";
      }
      *out += ']';
      return;
    case Json::value_t::string:
      AppendString(value.get_ref<const std::string&>(), out);
      return;
    case Json::value_t::number_float:
      *out += PythonFloat(value.get<double>());
      return;
    default:  // null, booleans and integers look alike everywhere
      *out += value.dump();
  }
}

std::string Write(const Json& value) {
  std::string out;
  AppendValue(value, &out);
  return out;
}

}  // namespace

std::string PythonFloat(double value) {
  // [-]d[.ddd]e[+-]dd, the shortest that reads back.
  char buffer[40];
  auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string sign = text.starts_with('-') ? "-" : "";
  text.remove_prefix(sign.size());
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string fraction = count > 1 ? StrCat(".", digits.substr(1)) : "";
    return StrCat(sign, digits.substr(0, 1), fraction, exponent < 0 ? "e-" : "e+",
                  std::abs(exponent) < 10 ? "0" : "", std::abs(exponent));
  }
  if (exponent < 0) return StrCat(sign, "0.", std::string(-exponent - 1, '0'), digits);
  if (exponent >= count - 1) {
    return StrCat(sign, digits, std::string(exponent - count + 1, '0'), ".0");
  }
  return StrCat(sign, digits.substr(0, exponent + 1), ".", digits.substr(exponent + 1));
}

absl::StatusOr<std::string> PythonJsonObject(std::string_view json) {
  CAIRN_ASSIGN_OR_RETURN(Json value, Parse(json));
  if (!value.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return Write(value);
}

absl::StatusOr<std::vector<std::string>> PythonJsonElements(std::string_view json) {
  CAIRN_ASSIGN_OR_RETURN(Json value, Parse(json));
  if (!value.is_array()) return absl::InvalidArgumentError("not a JSON array");
  std::vector<std::string> out;
  for (const Json& element : value) out.push_back(Write(element));
  return out;
}

}  // namespace cairn::engine
