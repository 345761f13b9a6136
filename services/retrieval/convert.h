// cairn.retrieval.v1 and cairn.common.v1 <-> retrieval's plain structs. Reading from the wire
// checks every field against the limits written in the contracts; writing to it never fails.
#ifndef CAIRN_SERVICES_RETRIEVAL_CONVERT_H_
#define CAIRN_SERVICES_RETRIEVAL_CONVERT_H_

#include <string>
#include <string_view>

#include "cairn/common/v1/common.pb.h"
#include "cairn/retrieval/v1/retrieval_service.pb.h"
#include "common/status.h"
#include "retrieval/index/index.h"
#include "retrieval/query/search.h"
#include "retrieval/types.h"

namespace cairn::services {

inline constexpr char kDefaultCollection[] = "default";

// "" is "default"; anything else must be a collection's name. `field` is named in the error.
absl::StatusOr<std::string> ReadCollection(std::string_view name,
                                           std::string_view field = "collection");
// 1 to 512 bytes of UTF-8 without control characters.
absl::Status CheckDocumentId(std::string_view id, std::string_view field = "document_id");
// 0 is 100.
absl::StatusOr<int> ReadPageSize(int page_size);
// 64 lower-case hex digits.
bool IsSha256Hex(std::string_view text);

absl::StatusOr<retrieval::MetadataValue> ReadMetadataValue(const common::v1::MetadataValue& value,
                                                           std::string_view field);
using ProtoMetadata = google::protobuf::Map<std::string, common::v1::MetadataValue>;
absl::StatusOr<retrieval::Metadata> ReadMetadata(const ProtoMetadata& metadata,
                                                 std::string_view field);
absl::StatusOr<retrieval::Filter> ReadFilter(const common::v1::Filter& filter,
                                             std::string_view field = "filter");

// Defaults of the server for what a request leaves open.
struct SearchDefaults {
  double vector_weight = 0.5;
  int candidates = 100;
  int rerank_top = 20;
  double rerank_weight = 0.5;
};
absl::StatusOr<retrieval::SearchQuery> ReadSearchRequest(
    const retrieval::v1::SearchRequest& request, const SearchDefaults& defaults);

absl::StatusOr<retrieval::Chunk> ReadChunk(const retrieval::v1::Chunk& chunk,
                                           std::string_view field);
absl::StatusOr<retrieval::DocumentInfo> ReadDocument(const retrieval::v1::Document& document,
                                                     std::string_view field);

void WriteMetadata(const retrieval::Metadata& metadata, ProtoMetadata* out);
void WriteChunk(const retrieval::Chunk& chunk, retrieval::v1::Chunk* out);
void WriteDocument(const retrieval::DocumentInfo& info, retrieval::v1::Document* out);
void WriteCollection(const retrieval::CollectionInfo& info, retrieval::v1::Collection* out);
// Everything but `chunk.source`, which needs the stored bytes.
void WriteSearchResult(const retrieval::SearchQuery& query, const retrieval::SearchResult& result,
                       retrieval::v1::SearchResponse* out);

void WriteTime(absl::Time time, google::protobuf::Timestamp* out);
void WriteDuration(absl::Duration duration, google::protobuf::Duration* out);
absl::Time ReadTime(const google::protobuf::Timestamp& time);

// True when the chunk's text is the source bytes of its span, byte for byte.
bool TextIsSource(const retrieval::Chunk& chunk);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RETRIEVAL_CONVERT_H_
