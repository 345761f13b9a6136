// The inference role, as the ports that others need: embedder, reranker, model, support scorer.
//
// Threads: thread-safe. The channel outlives the client.
#ifndef CAIRN_SERVICES_CLIENTS_INFERENCE_CLIENT_H_
#define CAIRN_SERVICES_CLIENTS_INFERENCE_CLIENT_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "agent/ports.h"
#include "cairn/inference/v1/inference_service.grpc.pb.h"
#include "common/context.h"
#include "common/status.h"
#include "retrieval/ports.h"
#include "services/clients/role_channel.h"

namespace cairn::services {

// Calls and the list of models, shared by the ports below.
class InferenceClient {
 public:
  explicit InferenceClient(RoleChannel* channel) : channel_(channel) {}

  absl::StatusOr<inference::v1::EmbedResponse> Embed(const RequestContext& context,
                                                     std::span<const std::string_view> texts,
                                                     inference::v1::EmbedKind kind);
  absl::StatusOr<inference::v1::RerankResponse> Rerank(const RequestContext& context,
                                                       std::string_view query,
                                                       std::span<const std::string_view> passages);
  // Numbers of tokens; "" counts with the default generator.
  absl::StatusOr<std::vector<int>> CountTokens(const RequestContext& context,
                                               const std::string& model,
                                               std::span<const std::string_view> texts,
                                               bool as_passage);
  absl::StatusOr<agent::ModelReply> Generate(const RequestContext& context,
                                             const agent::ModelRequest& request,
                                             const agent::TextCallback& on_text);
  // The default model of a role. NOT_FOUND (MODEL_NOT_FOUND) when the server has none, but
  // FAILED_PRECONDITION (NO_GENERATOR) for a generator; UNAVAILABLE while it loads, and the model's
  // own error when it cannot be used. An answer is remembered for a few seconds.
  absl::StatusOr<inference::v1::Model> DefaultModel(const RequestContext& context,
                                                    inference::v1::ModelRole role);

 private:
  using Stub = inference::v1::InferenceService::Stub;
  absl::StatusOr<std::shared_ptr<Stub>> GetStub(const RequestContext& context);

  RoleChannel* channel_;
  absl::Mutex mutex_;
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
  struct Known {
    inference::v1::Model model;
    absl::Time until;
  };
  std::map<int, Known> defaults_ ABSL_GUARDED_BY(mutex_);  // by role, ready ones only
};

class EmbedderClient final : public retrieval::Embedder {
 public:
  explicit EmbedderClient(InferenceClient* inference) : inference_(inference) {}
  absl::StatusOr<retrieval::EmbedderInfo> Info(const RequestContext& context) override;
  absl::StatusOr<std::vector<float>> EmbedPassages(
      const RequestContext& context, std::span<const std::string_view> texts) override;
  absl::StatusOr<std::vector<float>> EmbedQuery(const RequestContext& context,
                                                std::string_view text) override;
  absl::StatusOr<std::vector<int>> CountTokens(const RequestContext& context,
                                               std::span<const std::string_view> texts) override;

 private:
  InferenceClient* inference_;
};

// For ingestion: where the inference role serves no embedder, by choice, documents are still
// chunked, by an estimate of their tokens, and go to collections without vectors (dimension 0).
class IngestEmbedderClient final : public retrieval::Embedder {
 public:
  explicit IngestEmbedderClient(EmbedderClient* embedder) : embedder_(embedder) {}
  absl::StatusOr<retrieval::EmbedderInfo> Info(const RequestContext& context) override;
  absl::StatusOr<std::vector<float>> EmbedPassages(
      const RequestContext& context, std::span<const std::string_view> texts) override {
    return embedder_->EmbedPassages(context, texts);
  }
  absl::StatusOr<std::vector<float>> EmbedQuery(const RequestContext& context,
                                                std::string_view text) override {
    return embedder_->EmbedQuery(context, text);
  }
  absl::StatusOr<std::vector<int>> CountTokens(const RequestContext& context,
                                               std::span<const std::string_view> texts) override;

 private:
  EmbedderClient* embedder_;
};

class RerankerClient final : public retrieval::Reranker {
 public:
  explicit RerankerClient(InferenceClient* inference) : inference_(inference) {}
  absl::StatusOr<std::vector<float>> Score(const RequestContext& context, std::string_view query,
                                           std::span<const std::string_view> passages) override;
  // False while the reranker cannot be asked.
  bool Supports(std::string_view language) const override;

 private:
  InferenceClient* inference_;
};

class ModelClient final : public agent::Model {
 public:
  explicit ModelClient(InferenceClient* inference) : inference_(inference) {}
  absl::StatusOr<agent::ModelReply> Generate(const RequestContext& context,
                                             const agent::ModelRequest& request,
                                             const agent::TextCallback& on_text) override;
  absl::StatusOr<int> CountTokens(const RequestContext& context, std::string_view text) override;
  absl::StatusOr<int> ContextWindow(const RequestContext& context) override;

 private:
  InferenceClient* inference_;
};

class ScorerClient final : public agent::SupportScorer {
 public:
  explicit ScorerClient(InferenceClient* inference) : inference_(inference) {}
  absl::StatusOr<std::vector<float>> Similarity(
      const RequestContext& context, std::string_view text,
      std::span<const std::string_view> candidates) override;

 private:
  InferenceClient* inference_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_CLIENTS_INFERENCE_CLIENT_H_
