// The retrieval role, as the ports that others need: document sink for ingestion, retriever for the
// agent.
//
// Threads: thread-safe, except that one Retriever serves one question. The channel outlives the
//          client.
#ifndef CAIRN_SERVICES_CLIENTS_RETRIEVAL_CLIENT_H_
#define CAIRN_SERVICES_CLIENTS_RETRIEVAL_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "agent/ports.h"
#include "cairn/retrieval/v1/retrieval_service.grpc.pb.h"
#include "common/context.h"
#include "common/status.h"
#include "retrieval/ports.h"
#include "services/clients/role_channel.h"

namespace cairn::services {

class RetrievalClient {
 public:
  using Stub = retrieval::v1::RetrievalService::Stub;
  explicit RetrievalClient(RoleChannel* channel) : channel_(channel) {}
  absl::StatusOr<std::shared_ptr<Stub>> GetStub(const RequestContext& context);

 private:
  RoleChannel* channel_;
  absl::Mutex mutex_;
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
};

class SinkClient final : public retrieval::DocumentSink {
 public:
  explicit SinkClient(RetrievalClient* client) : client_(client) {}
  absl::StatusOr<bool> KeepsVectors(const RequestContext& context,
                                    std::string_view collection) override;
  absl::StatusOr<retrieval::DocumentInfo> Find(const RequestContext& context,
                                               std::string_view collection,
                                               std::string_view document_id) override;
  absl::StatusOr<retrieval::DocumentInfo> Commit(
      const RequestContext& context, const retrieval::DocumentVersion& document) override;
  absl::StatusOr<int> Delete(const RequestContext& context, std::string_view collection,
                             std::string_view document_id) override;

 private:
  RetrievalClient* client_;
};

// Searches under a filter, and remembers which stages of its searches could not run.
class RetrieverClient final : public agent::Retriever {
 public:
  RetrieverClient(RetrievalClient* client, common::v1::Filter filter)
      : client_(client), filter_(std::move(filter)) {}
  absl::StatusOr<std::vector<agent::Passage>> Search(const RequestContext& context,
                                                     const agent::SearchRequest& request) override;
  absl::StatusOr<agent::Passage> FetchChunk(const RequestContext& context,
                                            std::string_view collection,
                                            std::string_view chunk_id) override;
  // Each once, in the order seen.
  std::vector<std::string> degraded() const;

 private:
  RetrievalClient* client_;
  const common::v1::Filter filter_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> degraded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_CLIENTS_RETRIEVAL_CLIENT_H_
