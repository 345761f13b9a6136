// What retrieval and ingestion need from the rest of the world. Implemented in services/ (over gRPC
// or in process) and by fakes in tests. All methods may block; all are thread-safe.
#ifndef CAIRN_RETRIEVAL_PORTS_H_
#define CAIRN_RETRIEVAL_PORTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/context.h"
#include "common/status.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

struct EmbedderInfo {
  std::string model;        // name in the registry
  std::string fingerprint;  // identifies the vector space
  int dimension = 0;
  int max_tokens = 0;  // window, prefix and special tokens included
};

class Embedder {
 public:
  virtual ~Embedder() = default;
  virtual absl::StatusOr<EmbedderInfo> Info(const RequestContext& context) = 0;
  // [texts.size(), dimension] unit vectors.
  virtual absl::StatusOr<std::vector<float>> EmbedPassages(
      const RequestContext& context, std::span<const std::string_view> texts) = 0;
  virtual absl::StatusOr<std::vector<float>> EmbedQuery(const RequestContext& context,
                                                        std::string_view text) = 0;
  // Tokens of each text as a passage, prefix and special tokens included.
  virtual absl::StatusOr<std::vector<int>> CountTokens(const RequestContext& context,
                                                       std::span<const std::string_view> texts) = 0;
};

class Reranker {
 public:
  virtual ~Reranker() = default;
  // One raw relevance logit per passage.
  virtual absl::StatusOr<std::vector<float>> Score(const RequestContext& context,
                                                   std::string_view query,
                                                   std::span<const std::string_view> passages) = 0;
  // Languages ("en", "zh") for which reranking has been measured to help.
  virtual bool Supports(std::string_view language) const = 0;
};

// Where ingestion publishes: the index itself, or the retrieval role over gRPC.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  // False for a collection that is searched by words alone: its documents need no vectors. True for
  // one that does not exist yet.
  virtual absl::StatusOr<bool> KeepsVectors(const RequestContext&,
                                            std::string_view /*collection*/) {
    return true;
  }
  // NOT_FOUND when the document is not in the collection.
  virtual absl::StatusOr<DocumentInfo> Find(const RequestContext& context,
                                            std::string_view collection,
                                            std::string_view document_id) = 0;
  // Publishes atomically and retires the old version; returns the info with its version.
  virtual absl::StatusOr<DocumentInfo> Commit(const RequestContext& context,
                                              const DocumentVersion& document) = 0;
  // Number of documents deleted (0 or 1); final in every index at once.
  virtual absl::StatusOr<int> Delete(const RequestContext& context, std::string_view collection,
                                     std::string_view document_id) = 0;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PORTS_H_
