#ifndef CAIRN_RETRIEVAL_QUERY_VALIDATE_H_
#define CAIRN_RETRIEVAL_QUERY_VALIDATE_H_

#include <string_view>

#include "common/status.h"
#include "retrieval/query/search.h"

namespace cairn::retrieval {

// Nothing but white space and characters that show nothing (zero-width space, BOM, ...).
bool IsBlank(std::string_view text);

// The limits of SearchQuery; INVALID_ARGUMENT names the field.
absl::Status ValidateQuery(const SearchQuery& query);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_QUERY_VALIDATE_H_
