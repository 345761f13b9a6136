// What a document version must be before it enters the index.
#ifndef CAIRN_RETRIEVAL_INDEX_DOCUMENT_CHECK_H_
#define CAIRN_RETRIEVAL_INDEX_DOCUMENT_CHECK_H_

#include <string_view>

#include "common/status.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

// [a-z0-9][a-z0-9_-]{0,63}
absl::Status CheckCollectionName(std::string_view name);
// 1..kMaxDocumentIdBytes bytes of UTF-8 without control characters.
absl::Status CheckDocumentId(std::string_view document_id);
// INVALID_ARGUMENT names the field. Vectors are looked at by the index.
absl::Status CheckDocument(const DocumentVersion& document);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_DOCUMENT_CHECK_H_
