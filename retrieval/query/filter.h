// Metadata filters: validation and evaluation.
//
// Numbers compare by value, whole or not (3 equals 3.0); strings and booleans equal only their own
// kind. The reserved keys name fields of the document, "language" one of the chunk; they hide
// metadata of the same name.
#ifndef CAIRN_RETRIEVAL_QUERY_FILTER_H_
#define CAIRN_RETRIEVAL_QUERY_FILTER_H_

#include <string_view>

#include "common/status.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

inline constexpr size_t kMaxConditions = 64;
inline constexpr size_t kMaxConditionValues = 10000;
inline constexpr size_t kMaxMetadataKeyBytes = 256;
inline constexpr size_t kMaxMetadataKeys = 256;
inline constexpr std::string_view kLanguageKey = "language";

absl::Status ValidateFilter(const Filter& filter);

// Whether the conditions on the document hold; those on the language are left to MatchesLanguage.
// REQUIRES: the filter is valid.
bool MatchesDocument(const Filter& filter, const DocumentInfo& document);
bool MatchesLanguage(const Filter& filter, std::string_view chunk_language);
bool HasLanguageCondition(const Filter& filter);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_QUERY_FILTER_H_
