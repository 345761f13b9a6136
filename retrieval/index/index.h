// The front door of retrieval: collections of documents, committed atomically, searched by words
// and by vectors.
//
// Snapshots: every read runs over one immutable snapshot of memory and disk together. It sees a
// document's old
//            version or the new one, never a mix; readers and writers do not wait for each other.
// Durability: when Commit or Delete returns OK the change is on disk (see IndexOptions::sync) and
// visible to every
//            later read. A process killed at any point leaves whole documents only.
// Threads:   thread-safe. Analysis of a commit runs in the caller's thread, publication is
// serialised. Ownership: results own their data; `Embedder` and `Reranker` are borrowed for the
// call. Errors:    INVALID_ARGUMENT names the field; NOT_FOUND has reason COLLECTION_NOT_FOUND,
// DOCUMENT_NOT_FOUND,
//            CHUNK_NOT_FOUND or VERSION_RETIRED; FAILED_PRECONDITION has reason EMBEDDER_MISMATCH,
//            FORMAT_UNKNOWN or DATA_DIRECTORY_IN_USE; ALREADY_EXISTS COLLECTION_EXISTS; DATA_LOSS
//            when stored bytes are broken.
#ifndef CAIRN_RETRIEVAL_INDEX_INDEX_H_
#define CAIRN_RETRIEVAL_INDEX_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "retrieval/ports.h"
#include "retrieval/query/search.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

// Limits at the door.
inline constexpr size_t kMaxDocumentIdBytes = 512;
inline constexpr uint64_t kMaxSourceBytes = uint64_t{256} << 20;
inline constexpr size_t kMaxChunkBytes = size_t{1} << 20;
inline constexpr size_t kMaxChunksPerDocument = size_t{1} << 20;
inline constexpr int kMaxPageSize = 1000;
inline constexpr int kMaxDimension = 8192;

struct IndexOptions {
  // Affects behaviour: sync each commit to the device. Without it a commit survives the death of
  // the process but not of the machine.
  bool sync = true;
  // Affects performance: RocksDB block cache, in bytes.
  size_t block_cache_bytes = size_t{64} << 20;
};

struct CollectionConfig {
  std::string name;       // [a-z0-9][a-z0-9_-]{0,63}
  EmbedderInfo embedder;  // model, fingerprint and dimension are kept; dimension 0 = lexical only
};

struct CollectionInfo {
  CollectionConfig config;
  std::string analyzer_fingerprint;
  absl::Time created_at;
  uint64_t num_documents = 0;
  uint64_t num_chunks = 0;
  uint64_t source_bytes = 0;
};

struct DocumentPage {
  std::vector<DocumentInfo> documents;  // by document id, ascending
  std::string next_page_token;          // "" after the last page
};

struct IndexStats {
  uint64_t num_documents = 0;
  uint64_t num_chunks = 0;
  uint64_t num_deleted_chunks = 0;  // tombstones not yet merged away
  uint64_t num_segments = 0;
  uint64_t num_postings = 0;
  uint64_t memory_bytes = 0;  // postings, dictionaries and vectors held in memory
  // Searches since Open, and those answered without a stage that was asked for, by cause.
  uint64_t num_searches = 0;
  uint64_t num_degraded_vector = 0;
  uint64_t num_degraded_rerank = 0;
};

struct VerifyReport {
  uint64_t num_documents = 0;
  uint64_t num_chunks = 0;
  uint64_t num_bytes = 0;             // key and value bytes read, every checksum verified
  std::vector<std::string> problems;  // empty = sound; at most 100 are listed
};

class Index : public DocumentSink {
 public:
  // Opens or creates the index in `dir`, which this object owns until it is destroyed.
  static absl::StatusOr<std::unique_ptr<Index>> Open(const std::string& dir,
                                                     const IndexOptions& options);

  virtual absl::StatusOr<CollectionInfo> CreateCollection(const CollectionConfig& config) = 0;
  virtual absl::StatusOr<CollectionInfo> GetCollection(std::string_view name) = 0;
  virtual std::vector<CollectionInfo> ListCollections() = 0;  // by name
  virtual absl::Status DeleteCollection(std::string_view name) = 0;

  // Find, Commit and Delete: see DocumentSink. Commit of the same bytes with the same metadata,
  // title, media type and encoding changes nothing and returns what is there.

  // `page_size` 1..kMaxPageSize; `page_token` is empty or from the page before.
  virtual absl::StatusOr<DocumentPage> ListDocuments(const RequestContext& context,
                                                     std::string_view collection,
                                                     std::string_view page_token, int page_size,
                                                     const Filter& filter) = 0;

  // Source bytes of the span, which must lie inside the source. `version` 0 = the current one; a
  // retired version is NOT_FOUND.
  virtual absl::StatusOr<std::string> ReadSource(const RequestContext& context,
                                                 std::string_view collection,
                                                 std::string_view document_id, uint64_t version,
                                                 Span span) = 0;
  virtual absl::StatusOr<Chunk> GetChunk(const RequestContext& context, std::string_view collection,
                                         std::string_view chunk_id) = 0;
  // All chunks of the current version, by ordinal.
  virtual absl::StatusOr<std::vector<Chunk>> GetChunks(const RequestContext& context,
                                                       std::string_view collection,
                                                       std::string_view document_id) = 0;

  // `embedder` may be null: then a hybrid search is lexical and says so in SearchResult::degraded,
  // a vector search without a vector of the caller's is FAILED_PRECONDITION. `reranker` may be
  // null: no reranking (said as well when the query demands it).
  virtual absl::StatusOr<SearchResult> Search(const RequestContext& context,
                                              const SearchQuery& query, Embedder* embedder,
                                              Reranker* reranker) = 0;

  virtual IndexStats Stats() = 0;
  // Reads everything: checksums, counts, references between records, sources against their SHA-256.
  virtual absl::StatusOr<VerifyReport> Verify(const RequestContext& context) = 0;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_INDEX_H_
