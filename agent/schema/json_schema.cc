#include "agent/schema/json_schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/schema/json_text.h"
#include "common/check.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "re2/re2.h"

namespace cairn::agent {
namespace {

constexpr size_t kMaxEcho = 60;

const std::set<std::string_view> kTypes = {"null",   "boolean", "object", "array",
                                           "number", "string",  "integer"};
const std::set<std::string_view> kAnnotations = {
    "title",    "description", "default",  "examples",        "format",           "deprecated",
    "readOnly", "writeOnly",   "$comment", "contentEncoding", "contentMediaType", "contentSchema",
    "$schema"};
// Keywords by the shape of their value.
const std::set<std::string_view> kSchemaKeywords = {
    "additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"};
const std::set<std::string_view> kSchemaListKeywords = {"allOf", "anyOf", "oneOf", "prefixItems"};
const std::set<std::string_view> kSchemaMapKeywords = {"properties", "patternProperties",
                                                       "dependentSchemas", "$defs", "definitions"};
const std::set<std::string_view> kCountKeywords = {"minProperties", "maxProperties", "minItems",
                                                   "maxItems",      "minLength",     "maxLength",
                                                   "minContains",   "maxContains"};
const std::set<std::string_view> kNumberKeywords = {"minimum", "maximum", "exclusiveMinimum",
                                                    "exclusiveMaximum", "multipleOf"};

// Exact: a long double of 64 mantissa bits holds every integer and double that the parser makes.
long double NumberOf(const Json& json) {
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  return json.get<double>();
}

bool IsInteger(const Json& json) {
  return json.is_number_integer() ||
         (json.is_number_float() && std::trunc(NumberOf(json)) == NumberOf(json));
}

// Equal JSON values have equal keys: 1 and 1.0, objects in any order.
std::string CanonicalKey(const Json& json) {
  if (json.is_number()) {
    char text[64];
    const long double value = NumberOf(json);
    std::snprintf(text, sizeof(text), "%La", value == 0 ? 0.0L : value);
    return text;
  }
  if (json.is_array()) {
    std::string key = "[";
    for (const Json& element : json) key += CanonicalKey(element) + ",";
    return key + "]";
  }
  if (json.is_object()) {
    std::string key = "{";
    for (const auto& [name, value] : json.items())
      key += DumpJson(Json(name)) + ":" + CanonicalKey(value) + ",";
    return key + "}";
  }
  return DumpJson(json);
}

// A decimal number digits * 10^exponent, without trailing zeros: what the author of the JSON wrote.
struct Decimal {
  uint64_t digits = 0;
  int exponent = 0;
};

Decimal DecimalOf(const Json& json) {
  char text[64];
  const auto [end, error] =
      json.is_number_float()
          ? std::to_chars(text, text + sizeof(text), std::fabs(json.get<double>()),
                          std::chars_format::scientific)
      : json.is_number_unsigned()
          ? std::to_chars(text, text + sizeof(text), json.get<uint64_t>())
          : std::to_chars(text, text + sizeof(text), 0 - json.get<uint64_t>());
  CAIRN_CHECK(error == std::errc());
  Decimal decimal;
  int fraction = 0;
  const char* at = text;
  for (bool after_point = false; at < end && *at != 'e'; ++at) {
    if (*at == '.') {
      after_point = true;
      continue;
    }
    decimal.digits = decimal.digits * 10 + (*at - '0');
    fraction += after_point;
  }
  if (at < end) decimal.exponent = std::atoi(std::string(at + 1, end - at - 1).c_str());
  decimal.exponent -= fraction;
  while (decimal.digits != 0 && decimal.digits % 10 == 0) {
    decimal.digits /= 10;
    ++decimal.exponent;
  }
  return decimal;
}

// Exact in decimal: 0.0075 is a multiple of 0.0001, although their doubles are not.
bool MultipleOf(const Json& value_json, const Json& step_json) {
  const Decimal value = DecimalOf(value_json);
  const Decimal step = DecimalOf(step_json);
  if (value.digits == 0) return true;
  if (value.exponent < step.exponent)
    return false;  // a digit beyond the last of the step, and it is not 0
  unsigned __int128 remainder = value.digits % step.digits;
  for (int i = step.exponent; i < value.exponent; ++i) remainder = remainder * 10 % step.digits;
  return remainder == 0;
}

size_t CodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::string_view TypeName(const Json& json) {
  if (json.is_number()) return IsInteger(json) ? "integer" : "number";
  return json.type_name();
}

bool HasType(const Json& json, std::string_view type) {
  if (type == "number") return json.is_number();
  if (type == "integer") return json.is_number() && IsInteger(json);
  return type == json.type_name();
}

std::string PointerToken(std::string_view token) {
  std::string out;
  for (const char c : token) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::string Quoted(std::string_view text) {
  return DumpJsonBounded(Json(std::string(text)), kMaxEcho);
}

std::string Names(const Json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) {
    if (names.size() > 200) return names + ", ...";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

class JsonSchema::Impl {
 public:
  absl::Status Load(std::string_view text) {
    CAIRN_ASSIGN_OR_RETURN(root_, ParseJson(text));
    CAIRN_RETURN_IF_ERROR(CheckSchema(root_, ""));
    std::map<const Json*, int> states;
    for (const Json* schema : schemas_) {
      CAIRN_RETURN_IF_ERROR(CheckEnds(*schema, &states));
    }
    return absl::OkStatus();
  }

  void Validate(const Json& instance, std::vector<SchemaViolation>* out) const {
    Evaluate(root_, instance, "", out);
  }

 private:
  using Violations = std::vector<SchemaViolation>;

  static absl::Status Bad(const std::string& at, std::string_view message) {
    return absl::InvalidArgumentError(StrCat("schema #", at, ": ", message));
  }

  // Checks keywords and the shapes of their values, compiles patterns, resolves references.
  absl::Status CheckSchema(const Json& schema, const std::string& at) {
    if (!schemas_.insert(&schema).second) return absl::OkStatus();
    if (schema.is_boolean()) return absl::OkStatus();
    if (!schema.is_object()) return Bad(at, "a schema is an object, true or false");
    for (const auto& [keyword, value] : schema.items()) {
      CAIRN_RETURN_IF_ERROR(CheckKeyword(keyword, value, at + "/" + PointerToken(keyword)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckKeyword(const std::string& keyword, const Json& value, const std::string& at) {
    if (kAnnotations.count(keyword) != 0) return absl::OkStatus();
    if (keyword == "$id" && at == "/$id")
      return absl::OkStatus();  // no relative references are resolved against it
    if (keyword == "enum") return value.is_array() ? absl::OkStatus() : Bad(at, "must be an array");
    if (keyword == "const") return absl::OkStatus();
    if (keyword == "type") return CheckType(value, at);
    if (keyword == "$ref") return CheckReference(value, at);
    if (keyword == "pattern") return CheckPattern(value, at);
    if (keyword == "required") return CheckNames(value, at);
    if (keyword == "uniqueItems")
      return value.is_boolean() ? absl::OkStatus() : Bad(at, "must be a boolean");
    if (kSchemaKeywords.count(keyword) != 0) return CheckSchema(value, at);
    if (kCountKeywords.count(keyword) != 0) {
      return value.is_number() && IsInteger(value) && NumberOf(value) >= 0
                 ? absl::OkStatus()
                 : Bad(at, "must be a non-negative integer");
    }
    if (kNumberKeywords.count(keyword) != 0) {
      if (!value.is_number()) return Bad(at, "must be a number");
      if (keyword == "multipleOf" && NumberOf(value) <= 0) return Bad(at, "must be greater than 0");
      return absl::OkStatus();
    }
    if (kSchemaListKeywords.count(keyword) != 0) {
      if (!value.is_array() || value.empty()) return Bad(at, "must be a non-empty array");
      for (size_t i = 0; i < value.size(); ++i)
        CAIRN_RETURN_IF_ERROR(CheckSchema(value[i], StrCat(at, "/", i)));
      return absl::OkStatus();
    }
    if (kSchemaMapKeywords.count(keyword) != 0) {
      if (!value.is_object()) return Bad(at, "must be an object");
      for (const auto& [name, schema] : value.items()) {
        if (keyword == "patternProperties") CAIRN_RETURN_IF_ERROR(CheckPattern(Json(name), at));
        CAIRN_RETURN_IF_ERROR(CheckSchema(schema, at + "/" + PointerToken(name)));
      }
      return absl::OkStatus();
    }
    if (keyword == "dependentRequired") {
      if (!value.is_object()) return Bad(at, "must be an object");
      for (const auto& [name, names] : value.items())
        CAIRN_RETURN_IF_ERROR(CheckNames(names, at + "/" + name));
      return absl::OkStatus();
    }
    return Bad(at, "keyword is not supported");
  }

  absl::Status CheckType(const Json& value, const std::string& at) {
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& type : list) {
      if (!type.is_string() || kTypes.count(type.get_ref<const std::string&>()) == 0) {
        return Bad(at, StrCat("unknown type ", DumpJsonBounded(type, kMaxEcho)));
      }
    }
    return list.empty() ? Bad(at, "must not be empty") : absl::OkStatus();
  }

  absl::Status CheckNames(const Json& value, const std::string& at) {
    if (!value.is_array()) return Bad(at, "must be an array of strings");
    for (const Json& name : value) {
      if (!name.is_string()) return Bad(at, "must be an array of strings");
    }
    return absl::OkStatus();
  }

  absl::Status CheckPattern(const Json& value, const std::string& at) {
    if (!value.is_string()) return Bad(at, "must be a string");
    const std::string& pattern = value.get_ref<const std::string&>();
    if (patterns_.count(pattern) != 0) return absl::OkStatus();
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(1 << 20);
    auto compiled = std::make_unique<RE2>(pattern, options);
    if (!compiled->ok())
      return Bad(at, StrCat("pattern ", Quoted(pattern), ": ", compiled->error()));
    patterns_[pattern] = std::move(compiled);
    return absl::OkStatus();
  }

  absl::Status CheckReference(const Json& value, const std::string& at) {
    if (!value.is_string()) return Bad(at, "must be a string");
    const std::string& reference = value.get_ref<const std::string&>();
    if (references_.count(reference) != 0) return absl::OkStatus();
    const std::optional<std::string> pointer = DecodeFragment(reference);
    if (!pointer)
      return Bad(at, StrCat("only \"#\" and \"#/...\" are supported, not ", Quoted(reference)));
    const Json* target = nullptr;
    try {
      target = &root_.at(Json::json_pointer(*pointer));
    } catch (const Json::exception&) {
      return Bad(at, StrCat("nothing at ", Quoted(reference)));
    }
    references_[reference] = target;
    return CheckSchema(*target, *pointer);
  }

  // "#/a%20b" -> "/a b"; nothing when it is not "#" or a JSON pointer.
  static std::optional<std::string> DecodeFragment(std::string_view reference) {
    if (reference.empty() || reference[0] != '#' || (reference.size() > 1 && reference[1] != '/'))
      return {};
    std::string pointer;
    for (size_t i = 1; i < reference.size(); ++i) {
      if (reference[i] != '%') {
        pointer += reference[i];
        continue;
      }
      if (i + 2 >= reference.size() || !isxdigit(reference[i + 1]) || !isxdigit(reference[i + 2]))
        return {};
      pointer += static_cast<char>(std::stoi(std::string(reference.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    }
    return pointer;
  }

  // References that come back to the same schema without going into the instance would never end.
  absl::Status CheckEnds(const Json& schema, std::map<const Json*, int>* states) const {
    if (!schema.is_object()) return absl::OkStatus();
    int& state = (*states)[&schema];  // 0 new, 1 open, 2 done
    if (state == 2) return absl::OkStatus();
    if (state == 1) return absl::InvalidArgumentError("schema: a $ref leads back to itself");
    state = 1;
    for (const auto& [keyword, value] : schema.items()) {
      if (keyword == "$ref") {
        CAIRN_RETURN_IF_ERROR(
            CheckEnds(*references_.at(value.get_ref<const std::string&>()), states));
      } else if (keyword == "not" || keyword == "if" || keyword == "then" || keyword == "else") {
        CAIRN_RETURN_IF_ERROR(CheckEnds(value, states));
      } else if (keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf" ||
                 keyword == "dependentSchemas") {
        for (const auto& [name, inner] : value.items())
          CAIRN_RETURN_IF_ERROR(CheckEnds(inner, states));
      }
    }
    (*states)[&schema] = 2;
    return absl::OkStatus();
  }

  static void Add(const std::string& path, std::string message, Violations* out) {
    if (out->size() < static_cast<size_t>(kMaxViolations))
      out->push_back({path, std::move(message)});
  }

  bool Valid(const Json& schema, const Json& instance, const std::string& path) const {
    Violations violations;
    Evaluate(schema, instance, path, &violations);
    return violations.empty();
  }

  void Evaluate(const Json& schema, const Json& instance, const std::string& path,
                Violations* out) const {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) Add(path, "is not allowed", out);
      return;
    }
    if (const Json* reference = Find(schema, "$ref")) {
      Evaluate(*references_.at(reference->get_ref<const std::string&>()), instance, path, out);
    }
    if (!EvaluateAny(schema, instance, path, out))
      return;  // of the wrong type: the rest would only repeat it
    if (instance.is_object()) EvaluateObject(schema, instance, path, out);
    if (instance.is_array()) EvaluateArray(schema, instance, path, out);
    if (instance.is_string())
      EvaluateString(schema, instance.get_ref<const std::string&>(), path, out);
    if (instance.is_number()) EvaluateNumber(schema, instance, path, out);
    EvaluateApplicators(schema, instance, path, out);
  }

  static const Json* Find(const Json& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() ? nullptr : &*it;
  }

  // `allowed` must hold for keyword `key` when the schema has it.
  static bool EvaluateAny(const Json& schema, const Json& instance, const std::string& path,
                          Violations* out) {
    if (const Json* type = Find(schema, "type")) {
      const Json list = type->is_array() ? *type : Json::array({*type});
      const bool ok = std::any_of(list.begin(), list.end(), [&](const Json& name) {
        return HasType(instance, name.get_ref<const std::string&>());
      });
      if (!ok) {
        std::string names;
        for (const Json& name : list)
          names += (names.empty() ? "" : " or ") + name.get<std::string>();
        Add(path, StrCat("must be of type ", names, ", not ", TypeName(instance)), out);
        return false;
      }
    }
    if (const Json* values = Find(schema, "enum")) {
      const std::string key = CanonicalKey(instance);
      const bool ok = std::any_of(values->begin(), values->end(),
                                  [&](const Json& v) { return CanonicalKey(v) == key; });
      if (!ok) {
        Add(path,
            StrCat("must be one of ", DumpJsonBounded(*values, 200), ", not ",
                   DumpJsonBounded(instance, kMaxEcho)),
            out);
      }
    }
    if (const Json* value = Find(schema, "const");
        value != nullptr && CanonicalKey(*value) != CanonicalKey(instance)) {
      Add(path, StrCat("must be ", DumpJsonBounded(*value, 200)), out);
    }
    return true;
  }

  void EvaluateObject(const Json& schema, const Json& object, const std::string& path,
                      Violations* out) const {
    EvaluateCount(schema, "minProperties", "maxProperties", object.size(), "properties", path, out);
    if (const Json* required = Find(schema, "required")) RequireAll(*required, object, path, out);
    if (const Json* dependent = Find(schema, "dependentRequired")) {
      for (const auto& [name, names] : dependent->items()) {
        if (object.contains(name)) RequireAll(names, object, path, out);
      }
    }
    if (const Json* dependent = Find(schema, "dependentSchemas")) {
      for (const auto& [name, inner] : dependent->items()) {
        if (object.contains(name)) Evaluate(inner, object, path, out);
      }
    }
    const Json* properties = Find(schema, "properties");
    const Json* patterns = Find(schema, "patternProperties");
    const Json* additional = Find(schema, "additionalProperties");
    const Json* names = Find(schema, "propertyNames");
    for (const auto& [name, value] : object.items()) {
      const std::string at = path + "/" + PointerToken(name);
      bool known = false;
      if (properties != nullptr && properties->contains(name)) {
        known = true;
        Evaluate((*properties)[name], value, at, out);
      }
      if (patterns != nullptr) {
        for (const auto& [pattern, inner] : patterns->items()) {
          if (!RE2::PartialMatch(name, *patterns_.at(pattern))) continue;
          known = true;
          Evaluate(inner, value, at, out);
        }
      }
      if (!known && additional != nullptr) {
        if (*additional == Json(false)) {
          Add(path,
              StrCat("unexpected property ", Quoted(name),
                     properties == nullptr ? "" : "; the known ones are: " + Names(*properties)),
              out);
        } else {
          Evaluate(*additional, value, at, out);
        }
      }
      if (names != nullptr && !Valid(*names, Json(name), at)) {
        Add(path, StrCat("property name ", Quoted(name), " is not allowed"), out);
      }
    }
  }

  static void RequireAll(const Json& names, const Json& object, const std::string& path,
                         Violations* out) {
    for (const Json& name : names) {
      const std::string& key = name.get_ref<const std::string&>();
      if (!object.contains(key)) Add(path, StrCat("property ", Quoted(key), " is missing"), out);
    }
  }

  static void EvaluateCount(const Json& schema, const char* min_key, const char* max_key,
                            size_t count, std::string_view what, const std::string& path,
                            Violations* out) {
    const Json* min = Find(schema, min_key);
    const Json* max = Find(schema, max_key);
    if (min != nullptr && count < NumberOf(*min)) {
      Add(path, StrCat("must have at least ", DumpJson(*min), " ", what, ", not ", count), out);
    }
    if (max != nullptr && count > NumberOf(*max)) {
      Add(path, StrCat("must have at most ", DumpJson(*max), " ", what, ", not ", count), out);
    }
  }

  void EvaluateArray(const Json& schema, const Json& array, const std::string& path,
                     Violations* out) const {
    EvaluateCount(schema, "minItems", "maxItems", array.size(), "items", path, out);
    const Json* prefix = Find(schema, "prefixItems");
    const Json* items = Find(schema, "items");
    const size_t prefix_size = prefix == nullptr ? 0 : prefix->size();
    for (size_t i = 0; i < array.size(); ++i) {
      const std::string at = StrCat(path, "/", i);
      if (i < prefix_size) {
        Evaluate((*prefix)[i], array[i], at, out);
      } else if (items != nullptr) {
        Evaluate(*items, array[i], at, out);
      }
    }
    if (const Json* unique = Find(schema, "uniqueItems");
        unique != nullptr && unique->get<bool>()) {
      std::set<std::string> keys;
      for (const Json& element : array) keys.insert(CanonicalKey(element));
      if (keys.size() != array.size()) Add(path, "must not have equal items", out);
    }
    if (const Json* contains = Find(schema, "contains")) {
      size_t matches = 0;
      for (const Json& element : array) matches += Valid(*contains, element, path);
      const Json* min = Find(schema, "minContains");
      if (matches < (min == nullptr ? 1 : NumberOf(*min)))
        Add(path, "has too few of the items it must contain", out);
      const Json* max = Find(schema, "maxContains");
      if (max != nullptr && matches > NumberOf(*max))
        Add(path, "has too many of the items it may contain", out);
    }
  }

  void EvaluateString(const Json& schema, const std::string& text, const std::string& path,
                      Violations* out) const {
    EvaluateCount(schema, "minLength", "maxLength", CodePoints(text), "characters", path, out);
    if (const Json* pattern = Find(schema, "pattern")) {
      const std::string& source = pattern->get_ref<const std::string&>();
      if (!RE2::PartialMatch(text, *patterns_.at(source)))
        Add(path, StrCat("must match the pattern ", source), out);
    }
  }

  static void EvaluateNumber(const Json& schema, const Json& value, const std::string& path,
                             Violations* out) {
    const auto check = [&](const char* key, std::string_view relation, auto holds) {
      const Json* limit = Find(schema, key);
      if (limit != nullptr && !holds(NumberOf(value), NumberOf(*limit))) {
        Add(path, StrCat("must be ", relation, " ", DumpJson(*limit)), out);
      }
    };
    check("minimum", "at least", std::greater_equal<>());
    check("maximum", "at most", std::less_equal<>());
    check("exclusiveMinimum", "greater than", std::greater<>());
    check("exclusiveMaximum", "less than", std::less<>());
    const Json* step = Find(schema, "multipleOf");
    if (step != nullptr && !MultipleOf(value, *step))
      Add(path, StrCat("must be a multiple of ", DumpJson(*step)), out);
  }

  void EvaluateApplicators(const Json& schema, const Json& instance, const std::string& path,
                           Violations* out) const {
    if (const Json* all = Find(schema, "allOf")) {
      for (const Json& inner : *all) Evaluate(inner, instance, path, out);
    }
    if (const Json* any = Find(schema, "anyOf")) {
      const bool ok = std::any_of(any->begin(), any->end(),
                                  [&](const Json& s) { return Valid(s, instance, path); });
      if (!ok) Add(path, "matches none of the allowed forms", out);
    }
    if (const Json* one = Find(schema, "oneOf")) {
      const auto matches = std::count_if(one->begin(), one->end(),
                                         [&](const Json& s) { return Valid(s, instance, path); });
      if (matches != 1)
        Add(path, StrCat("must match exactly one of the allowed forms, not ", matches), out);
    }
    if (const Json* inner = Find(schema, "not");
        inner != nullptr && Valid(*inner, instance, path)) {
      Add(path, "has a form that is not allowed", out);
    }
    if (const Json* condition = Find(schema, "if")) {
      const Json* branch = Find(schema, Valid(*condition, instance, path) ? "then" : "else");
      if (branch != nullptr) Evaluate(*branch, instance, path, out);
    }
  }

  Json root_;
  std::set<const Json*> schemas_;  // every place that is used as a schema
  std::map<std::string, const Json*> references_;
  std::map<std::string, std::unique_ptr<const RE2>> patterns_;
};

JsonSchema::JsonSchema(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
JsonSchema::~JsonSchema() = default;

absl::StatusOr<std::unique_ptr<JsonSchema>> JsonSchema::Compile(std::string_view schema_json) {
  auto impl = std::make_unique<Impl>();
  CAIRN_RETURN_IF_ERROR(impl->Load(schema_json));
  return std::unique_ptr<JsonSchema>(new JsonSchema(std::move(impl)));
}

absl::StatusOr<std::vector<SchemaViolation>> JsonSchema::Validate(
    std::string_view instance_json) const {
  CAIRN_ASSIGN_OR_RETURN(const Json instance, ParseJson(instance_json, kMaxDepth));
  std::vector<SchemaViolation> violations;
  impl_->Validate(instance, &violations);
  return violations;
}

}  // namespace cairn::agent
