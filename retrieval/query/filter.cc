#include "retrieval/query/filter.h"

#include <algorithm>
#include <cmath>

#include "common/strings.h"

namespace cairn::retrieval {
namespace {

using Op = Condition::Op;

bool IsNumber(const MetadataValue& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

// x87 and binary128 long doubles hold every int64 and every double exactly.
static_assert(std::numeric_limits<long double>::digits >= 64);
long double Number(const MetadataValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<long double>(*integer);
  return static_cast<long double>(std::get<double>(value));
}

bool Equal(const MetadataValue& a, const MetadataValue& b) {
  if (IsNumber(a) && IsNumber(b)) return Number(a) == Number(b);
  return a == b;
}

bool Holds(const Condition& condition, const MetadataValue& value) {
  if (condition.op == Op::kRange) {
    return IsNumber(value) && (!condition.low || Number(*condition.low) <= Number(value)) &&
           (!condition.high || Number(value) <= Number(*condition.high));
  }
  return std::any_of(condition.values.begin(), condition.values.end(),
                     [&](const MetadataValue& wanted) { return Equal(wanted, value); });
}

bool HoldsForText(const Condition& condition, std::string_view text) {
  if (condition.op == Op::kRange) return false;
  return std::any_of(condition.values.begin(), condition.values.end(),
                     [&](const MetadataValue& wanted) {
                       const auto* wanted_text = std::get_if<std::string>(&wanted);
                       return wanted_text != nullptr && *wanted_text == text;
                     });
}

absl::Status ValidateCondition(const Condition& condition) {
  if (condition.key.empty() || condition.key.size() > kMaxMetadataKeyBytes) {
    return InvalidField("filter.key", StrCat("must have 1 to ", kMaxMetadataKeyBytes, " bytes"));
  }
  for (const MetadataValue& value : condition.values) {
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && std::isnan(*number))
      return InvalidField("filter.values", "NaN equals nothing");
  }
  if (condition.op == Op::kRange) {
    if (!condition.low && !condition.high) return InvalidField("filter", "a range needs a bound");
    for (const auto& bound : {condition.low, condition.high}) {
      if (!bound) continue;
      if (!IsNumber(*bound) || std::isnan(Number(*bound))) {
        return InvalidField("filter", "the bounds of a range are numbers");
      }
    }
    return absl::OkStatus();
  }
  const size_t most = condition.op == Op::kEquals ? 1 : kMaxConditionValues;
  if (condition.values.empty() || condition.values.size() > most) {
    return InvalidField("filter.values",
                        StrCat("1 to ", most, " values, not ", condition.values.size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateFilter(const Filter& filter) {
  if (filter.size() > kMaxConditions) {
    return InvalidField("filter",
                        StrCat("at most ", kMaxConditions, " conditions, not ", filter.size()));
  }
  for (const Condition& condition : filter) CAIRN_RETURN_IF_ERROR(ValidateCondition(condition));
  return absl::OkStatus();
}

bool MatchesDocument(const Filter& filter, const DocumentInfo& document) {
  return std::all_of(filter.begin(), filter.end(), [&](const Condition& condition) {
    if (condition.key == kLanguageKey) return true;
    if (condition.key == "document_id") return HoldsForText(condition, document.document_id);
    if (condition.key == "media_type") return HoldsForText(condition, document.media_type);
    if (condition.key == "title") return HoldsForText(condition, document.title);
    const auto found = document.metadata.find(condition.key);
    return found != document.metadata.end() && Holds(condition, found->second);
  });
}

bool MatchesLanguage(const Filter& filter, std::string_view chunk_language) {
  return std::all_of(filter.begin(), filter.end(), [&](const Condition& condition) {
    return condition.key != kLanguageKey || HoldsForText(condition, chunk_language);
  });
}

bool HasLanguageCondition(const Filter& filter) {
  return std::any_of(filter.begin(), filter.end(),
                     [](const Condition& condition) { return condition.key == kLanguageKey; });
}

}  // namespace cairn::retrieval
