// Index over a Store and an in-memory State. index.cc reads, commit.cc writes, load.cc opens,
// verify.cc checks.
#ifndef CAIRN_RETRIEVAL_INDEX_INDEX_IMPL_H_
#define CAIRN_RETRIEVAL_INDEX_INDEX_IMPL_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/file.h"
#include "retrieval/index/index.h"
#include "retrieval/index/state.h"
#include "retrieval/store/store.h"
#include "retrieval/text/analyzer.h"

namespace cairn::retrieval {

class IndexImpl final : public Index {
 public:
  explicit IndexImpl(const IndexOptions& options) : options_(options) {}
  absl::Status Load(const std::string& dir);

  absl::StatusOr<CollectionInfo> CreateCollection(const CollectionConfig& config) override;
  absl::StatusOr<CollectionInfo> GetCollection(std::string_view name) override;
  std::vector<CollectionInfo> ListCollections() override;
  absl::Status DeleteCollection(std::string_view name) override;

  absl::StatusOr<bool> KeepsVectors(const RequestContext& context,
                                    std::string_view collection) override;
  absl::StatusOr<DocumentInfo> Find(const RequestContext& context, std::string_view collection,
                                    std::string_view document_id) override;
  absl::StatusOr<DocumentInfo> Commit(const RequestContext& context,
                                      const DocumentVersion& document) override;
  absl::StatusOr<int> Delete(const RequestContext& context, std::string_view collection,
                             std::string_view document_id) override;

  absl::StatusOr<DocumentPage> ListDocuments(const RequestContext& context,
                                             std::string_view collection,
                                             std::string_view page_token, int page_size,
                                             const Filter& filter) override;
  absl::StatusOr<std::string> ReadSource(const RequestContext& context, std::string_view collection,
                                         std::string_view document_id, uint64_t version,
                                         Span span) override;
  absl::StatusOr<Chunk> GetChunk(const RequestContext& context, std::string_view collection,
                                 std::string_view chunk_id) override;
  absl::StatusOr<std::vector<Chunk>> GetChunks(const RequestContext& context,
                                               std::string_view collection,
                                               std::string_view document_id) override;
  absl::StatusOr<SearchResult> Search(const RequestContext& context, const SearchQuery& query,
                                      Embedder* embedder, Reranker* reranker) override;
  IndexStats Stats() override;
  absl::StatusOr<VerifyReport> Verify(const RequestContext& context) override;

 private:
  using CollectionPtr = std::shared_ptr<const CollectionState>;
  using StatePtr = std::shared_ptr<const State>;
  struct PreparedDocument;

  // Reading (index.cc). The state must outlive the use of what comes out of it.
  StatePtr CurrentState();
  static absl::StatusOr<CollectionPtr> FindCollection(const State& state, std::string_view name);
  absl::StatusOr<DocumentRecord> FindDocument(const State& state, const CollectionState& collection,
                                              std::string_view document_id) const;
  absl::StatusOr<Chunk> ReadChunk(const State& state, uint32_t collection, uint64_t uid,
                                  uint32_t ordinal, const DocumentInfo& info) const;
  absl::StatusOr<std::string> ReadSourceBytes(const State& state, uint32_t collection,
                                              const DocumentRecord& record, Span span) const;

  // Writing (commit.cc). REQUIRES: writer_mutex_ is held.
  void Publish(std::map<std::string, CollectionPtr, std::less<>> collections);
  absl::StatusOr<DocumentInfo> CommitPrepared(const DocumentVersion& document,
                                              PreparedDocument prepared);
  // Deletes the records of a version; adds what its chunks are called to `*chunk_ids`.
  absl::Status RetireVersion(const State& state, uint32_t collection, const DocumentRecord& record,
                             Store::Batch* batch, std::vector<std::string>* chunk_ids) const;

  // Opening (load.cc).
  absl::Status CheckFormat(const std::string& dir);
  absl::StatusOr<CollectionPtr> LoadCollection(const State& state,
                                               std::shared_ptr<const CollectionRecord> record);
  absl::Status Reanalyze(CollectionRecord* record);

  const IndexOptions options_;
  std::unique_ptr<DirectoryLock> directory_lock_;
  std::unique_ptr<Analyzer> analyzer_;
  std::unique_ptr<Store> store_;

  std::mutex state_mutex_;
  StatePtr state_;  // guarded by state_mutex_

  std::mutex writer_mutex_;          // held by whoever makes the next state
  uint64_t next_uid_ = 1;            // guarded by writer_mutex_
  uint32_t next_collection_id_ = 1;  // guarded by writer_mutex_

  std::atomic<uint64_t> num_searches_{0}, num_degraded_vector_{0}, num_degraded_rerank_{0};
};

absl::Status CollectionNotFound(std::string_view name);
absl::Status DocumentNotFound(std::string_view document_id);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_INDEX_IMPL_H_
