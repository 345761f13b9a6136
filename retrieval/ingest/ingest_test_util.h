// An embedder and a sink that fail on request, for the tests of ingestion.
#ifndef CAIRN_RETRIEVAL_INGEST_INGEST_TEST_UTIL_H_
#define CAIRN_RETRIEVAL_INGEST_INGEST_TEST_UTIL_H_

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/file.h"
#include "common/strings.h"
#include "retrieval/chunk/chunk_test_util.h"
#include "retrieval/ports.h"

namespace cairn::retrieval {

// The vector of a text is made of its length and bytes, so that a test can tell which text it
// belongs to.
inline std::vector<float> FakeVector(std::string_view text) {
  float sum = 1;
  for (const char c : text) sum = sum * 0.5f + static_cast<float>(static_cast<unsigned char>(c));
  return {static_cast<float>(text.size()), sum, 1, 0};
}

class FakeEmbedder : public Embedder {
 public:
  // Called before each batch with its number, from 1; an error is returned to the ingestor.
  std::function<absl::Status(const RequestContext&, int call)> before_batch;
  // Changes what a batch returns.
  std::function<void(std::vector<float>*)> after_batch;
  std::atomic<int> batches = 0;
  std::atomic<int> texts_embedded = 0;
  int max_tokens = 128;

  absl::StatusOr<EmbedderInfo> Info(const RequestContext&) override {
    return EmbedderInfo{"fake", "fake-space", 4, max_tokens};
  }
  absl::StatusOr<std::vector<float>> EmbedPassages(
      const RequestContext& context, std::span<const std::string_view> texts) override {
    const int call = ++batches;
    if (before_batch) {
      if (absl::Status status = before_batch(context, call); !status.ok()) return status;
    }
    std::vector<float> out;
    for (const std::string_view text : texts) {
      const std::vector<float> vector = FakeVector(text);
      out.insert(out.end(), vector.begin(), vector.end());
    }
    texts_embedded += static_cast<int>(texts.size());
    if (after_batch) after_batch(&out);
    return out;
  }
  absl::StatusOr<std::vector<float>> EmbedQuery(const RequestContext&,
                                                std::string_view text) override {
    return FakeVector(text);
  }
  absl::StatusOr<std::vector<int>> CountTokens(const RequestContext&,
                                               std::span<const std::string_view> texts) override {
    std::vector<int> out;
    for (const std::string_view text : texts) out.push_back(FakeTokens(text));
    return out;
  }
};

class MemorySink : public DocumentSink {
 public:
  std::function<absl::Status(const DocumentVersion&)> before_commit;
  std::function<absl::Status(const DocumentVersion&)> after_commit;  // the answer gets lost

  absl::StatusOr<DocumentInfo> Find(const RequestContext&, std::string_view collection,
                                    std::string_view document_id) override {
    std::lock_guard lock(mutex_);
    const auto it = documents_.find({std::string(collection), std::string(document_id)});
    if (it == documents_.end()) return absl::NotFoundError("no such document");
    return it->second.info;
  }
  absl::StatusOr<DocumentInfo> Commit(const RequestContext&,
                                      const DocumentVersion& document) override {
    if (before_commit) {
      if (absl::Status status = before_commit(document); !status.ok()) return status;
    }
    DocumentVersion copy = document;
    {
      std::lock_guard lock(mutex_);
      DocumentVersion& stored = documents_[{document.info.collection, document.info.document_id}];
      copy.info.version = stored.info.version + 1;
      stored = copy;
      ++commits_;
    }
    if (after_commit) {
      if (absl::Status status = after_commit(document); !status.ok()) return status;
    }
    return copy.info;
  }
  absl::StatusOr<int> Delete(const RequestContext&, std::string_view collection,
                             std::string_view document_id) override {
    std::lock_guard lock(mutex_);
    return static_cast<int>(documents_.erase({std::string(collection), std::string(document_id)}));
  }

  int commits() {
    std::lock_guard lock(mutex_);
    return commits_;
  }
  // As if committed before chunk_tokens was recorded.
  void ForgetChunking() {
    std::lock_guard lock(mutex_);
    for (auto& [id, document] : documents_) document.info.chunk_tokens = 0;
  }
  // Empty when there is none.
  DocumentVersion Get(const std::string& document_id, const std::string& collection = "c") {
    std::lock_guard lock(mutex_);
    const auto it = documents_.find({collection, document_id});
    return it == documents_.end() ? DocumentVersion() : it->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, DocumentVersion> documents_;
  int commits_ = 0;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INGEST_INGEST_TEST_UTIL_H_
