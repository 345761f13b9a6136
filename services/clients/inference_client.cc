#include "services/clients/inference_client.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::inference::v1;

// Limits of one request, see the contract.
constexpr size_t kMaxEmbedTexts = 1024;
constexpr size_t kMaxRerankPassages = 1024;
constexpr size_t kMaxTokenizeTexts = 4096;
// Keeps a request far from the message limit whatever the texts are.
constexpr size_t kMaxRequestBytes = 1 << 20;
constexpr int kWindowWithoutEmbedder = 512;
constexpr absl::Duration kListTimeout = absl::Seconds(5);
// Another inference server may stand behind the address later: its models are seen after this long.
constexpr absl::Duration kModelMemory = absl::Seconds(10);

// The end of the next batch: at most `max_texts` texts of kMaxRequestBytes together, at least one.
size_t BatchEnd(std::span<const std::string_view> texts, size_t begin, size_t max_texts) {
  size_t end = begin, bytes = 0;
  while (end < texts.size() && end - begin < max_texts) {
    bytes += texts[end].size();
    if (end > begin && bytes > kMaxRequestBytes) break;
    ++end;
  }
  return end;
}

absl::Status WrongCount(const char* what, size_t got, size_t wanted) {
  return absl::InternalError(StrCat("inference gave ", got, " ", what, " for ", wanted, " texts"));
}

// [texts, dimension], row by row.
absl::StatusOr<std::vector<float>> Flatten(const proto::EmbedResponse& response) {
  std::vector<float> out;
  const int dimension = response.embeddings_size() > 0 ? response.embeddings(0).values_size() : 0;
  out.reserve(static_cast<size_t>(dimension) * response.embeddings_size());
  for (const auto& embedding : response.embeddings()) {
    if (embedding.values_size() != dimension) return absl::InternalError("vectors differ in size");
    out.insert(out.end(), embedding.values().begin(), embedding.values().end());
  }
  return out;
}

}  // namespace

absl::StatusOr<std::shared_ptr<InferenceClient::Stub>> InferenceClient::GetStub(
    const RequestContext& context) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  CAIRN_ASSIGN_OR_RETURN(auto channel, channel_->Get(context));
  absl::MutexLock lock(&mutex_);
  if (!stub_) stub_ = proto::InferenceService::NewStub(channel);
  return stub_;
}

absl::StatusOr<proto::EmbedResponse> InferenceClient::Embed(const RequestContext& context,
                                                            std::span<const std::string_view> texts,
                                                            proto::EmbedKind kind) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, GetStub(context));
  proto::EmbedResponse all;
  for (size_t begin = 0, end; begin < texts.size(); begin = end) {
    end = BatchEnd(texts, begin, kMaxEmbedTexts);
    proto::EmbedRequest request;
    request.set_kind(kind);
    for (size_t i = begin; i < end; ++i) request.add_texts(SanitizeUtf8(texts[i]));
    proto::EmbedResponse response;
    ClientCall call(context);
    CAIRN_RETURN_IF_ERROR(call.Result(stub->Embed(call.get(), request, &response)));
    if (response.embeddings_size() != request.texts_size()) {
      return WrongCount("vectors", response.embeddings_size(), request.texts_size());
    }
    all.MergeFrom(response);
  }
  return all;
}

absl::StatusOr<proto::RerankResponse> InferenceClient::Rerank(
    const RequestContext& context, std::string_view query,
    std::span<const std::string_view> passages) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, GetStub(context));
  proto::RerankResponse all;
  for (size_t begin = 0, end; begin < passages.size(); begin = end) {
    end = BatchEnd(passages, begin, kMaxRerankPassages);
    proto::RerankRequest request;
    request.set_query(SanitizeUtf8(query));
    for (size_t i = begin; i < end; ++i) request.add_passages(SanitizeUtf8(passages[i]));
    proto::RerankResponse response;
    ClientCall call(context);
    CAIRN_RETURN_IF_ERROR(call.Result(stub->Rerank(call.get(), request, &response)));
    if (response.scores_size() != request.passages_size()) {
      return WrongCount("scores", response.scores_size(), request.passages_size());
    }
    all.MergeFrom(response);
  }
  return all;
}

absl::StatusOr<std::vector<int>> InferenceClient::CountTokens(
    const RequestContext& context, const std::string& model,
    std::span<const std::string_view> texts, bool as_passage) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, GetStub(context));
  std::vector<int> counts;
  counts.reserve(texts.size());
  for (size_t begin = 0, end; begin < texts.size(); begin = end) {
    end = BatchEnd(texts, begin, kMaxTokenizeTexts);
    proto::TokenizeRequest request;
    request.set_model(model);
    request.set_as_passage(as_passage);
    request.set_count_only(true);
    for (size_t i = begin; i < end; ++i) request.add_texts(SanitizeUtf8(texts[i]));
    proto::TokenizeResponse response;
    ClientCall call(context);
    CAIRN_RETURN_IF_ERROR(call.Result(stub->Tokenize(call.get(), request, &response)));
    if (response.tokens_size() != request.texts_size()) {
      return WrongCount("token counts", response.tokens_size(), request.texts_size());
    }
    for (const auto& tokens : response.tokens()) counts.push_back(tokens.count());
  }
  return counts;
}

absl::StatusOr<agent::ModelReply> InferenceClient::Generate(const RequestContext& context,
                                                            const agent::ModelRequest& in,
                                                            const agent::TextCallback& on_text) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, GetStub(context));
  proto::GenerateRequest request;
  for (const agent::Message& message : in.messages) {
    auto* out = request.mutable_chat()->add_messages();
    out->set_content(SanitizeUtf8(message.content));
    switch (message.role) {
      case agent::Message::Role::kSystem:
        out->set_role(proto::CHAT_ROLE_SYSTEM);
        break;
      case agent::Message::Role::kUser:
        out->set_role(proto::CHAT_ROLE_USER);
        break;
      case agent::Message::Role::kAssistant:
        out->set_role(proto::CHAT_ROLE_ASSISTANT);
        break;
      case agent::Message::Role::kTool:
        out->set_role(proto::CHAT_ROLE_TOOL);
        break;
    }
  }
  request.mutable_chat()->set_tools_json(in.tools_json);
  request.mutable_sampling()->set_temperature(in.temperature);
  request.mutable_sampling()->set_seed(in.seed);
  request.set_max_tokens(in.max_tokens);
  for (const std::string& stop : in.stop) request.add_stop(stop);

  ClientCall call(context);
  auto reader = stub->Generate(call.get(), request);
  agent::ModelReply reply;
  bool completed = false, stopped = false;
  proto::GenerateResponse event;
  while (reader->Read(&event)) {
    if (event.has_text_delta()) {
      reply.text += event.text_delta().text();
      if (!stopped && on_text && !on_text(event.text_delta().text())) {
        stopped = true;
        call.get()->TryCancel();
      }
    } else if (event.has_completed()) {
      completed = true;
      reply.truncated = event.completed().finish_reason() == proto::FINISH_REASON_LENGTH;
      reply.prompt_tokens = event.completed().usage().prompt_tokens();
      reply.completion_tokens = event.completed().usage().completion_tokens();
    }
  }
  const absl::Status status = call.Result(reader->Finish());
  // Stopped by the caller, who has what it wants: as good as an end of the model's own.
  if (stopped && (status.ok() || absl::IsCancelled(status)) && context.Check().ok()) return reply;
  CAIRN_RETURN_IF_ERROR(status);
  if (!completed) return absl::InternalError("the generation ended without its last event");
  return reply;
}

namespace {

// Any use of the model gives its own error: loading, not fetched, broken; "" is the generator.
absl::Status WhyNotReady(const RequestContext& context, proto::InferenceService::Stub* stub,
                         const std::string& model) {
  proto::TokenizeRequest request;
  request.set_model(model);
  request.add_texts(model);
  proto::TokenizeResponse response;
  ClientCall call(context);
  CAIRN_RETURN_IF_ERROR(call.Result(stub->Tokenize(call.get(), request, &response)));
  // Ready by now.
  return WithRetryAfter(
      WithReason(absl::UnavailableError(StrCat("model ", model, " was loading")), "MODEL_LOADING"),
      absl::Seconds(1));
}

}  // namespace

absl::StatusOr<proto::Model> InferenceClient::DefaultModel(const RequestContext& context,
                                                           proto::ModelRole role) {
  {
    absl::MutexLock lock(&mutex_);
    const auto it = defaults_.find(role);
    if (it != defaults_.end() && absl::Now() < it->second.until) return it->second.model;
  }
  CAIRN_ASSIGN_OR_RETURN(auto stub, GetStub(context));
  proto::ListModelsResponse response;
  ClientCall call(context);
  CAIRN_RETURN_IF_ERROR(call.Result(stub->ListModels(call.get(), {}, &response)));
  for (const proto::Model& model : response.models()) {
    if (model.role() != role || !model.is_default()) continue;
    if (!model.ready()) return WhyNotReady(context, stub.get(), model.name());
    absl::MutexLock lock(&mutex_);
    defaults_[role] = {model, absl::Now() + kModelMemory};
    return model;
  }
  if (role == proto::MODEL_ROLE_GENERATOR) return WhyNotReady(context, stub.get(), "");
  return WithReason(
      absl::NotFoundError(StrCat("the inference role serves no ", proto::ModelRole_Name(role))),
      "MODEL_NOT_FOUND");
}

absl::StatusOr<retrieval::EmbedderInfo> EmbedderClient::Info(const RequestContext& context) {
  CAIRN_ASSIGN_OR_RETURN(const proto::Model model,
                         inference_->DefaultModel(context, proto::MODEL_ROLE_EMBEDDER));
  return retrieval::EmbedderInfo{model.name(), model.fingerprint(), model.dimension(),
                                 model.max_tokens()};
}

absl::StatusOr<std::vector<float>> EmbedderClient::EmbedPassages(
    const RequestContext& context, std::span<const std::string_view> texts) {
  CAIRN_ASSIGN_OR_RETURN(const auto response,
                         inference_->Embed(context, texts, proto::EMBED_KIND_PASSAGE));
  return Flatten(response);
}

absl::StatusOr<std::vector<float>> EmbedderClient::EmbedQuery(const RequestContext& context,
                                                              std::string_view text) {
  CAIRN_ASSIGN_OR_RETURN(const auto response,
                         inference_->Embed(context, {&text, 1}, proto::EMBED_KIND_QUERY));
  return Flatten(response);
}

absl::StatusOr<std::vector<int>> EmbedderClient::CountTokens(
    const RequestContext& context, std::span<const std::string_view> texts) {
  CAIRN_ASSIGN_OR_RETURN(const proto::Model model,
                         inference_->DefaultModel(context, proto::MODEL_ROLE_EMBEDDER));
  return inference_->CountTokens(context, model.name(), texts, /*as_passage=*/true);
}

absl::StatusOr<retrieval::EmbedderInfo> IngestEmbedderClient::Info(const RequestContext& context) {
  auto info = embedder_->Info(context);
  if (absl::IsNotFound(info.status())) {
    return retrieval::EmbedderInfo{.max_tokens = kWindowWithoutEmbedder};
  }
  return info;
}

absl::StatusOr<std::vector<int>> IngestEmbedderClient::CountTokens(
    const RequestContext& context, std::span<const std::string_view> texts) {
  auto counts = embedder_->CountTokens(context, texts);
  if (!absl::IsNotFound(counts.status())) return counts;
  std::vector<int> estimates;
  for (std::string_view text : texts) {
    // About four letters a token in Latin script, one character a token elsewhere.
    size_t ascii = 0, others = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      ascii += byte < 0x80;
      others += byte >= 0xc0;  // first byte of a longer character
    }
    estimates.push_back(static_cast<int>((ascii + 3) / 4 + others));
  }
  return estimates;
}

absl::StatusOr<std::vector<float>> RerankerClient::Score(
    const RequestContext& context, std::string_view query,
    std::span<const std::string_view> passages) {
  CAIRN_ASSIGN_OR_RETURN(const auto response, inference_->Rerank(context, query, passages));
  std::vector<float> scores;
  scores.reserve(response.scores_size());
  for (const auto& score : response.scores()) scores.push_back(score.logit());
  return scores;
}

bool RerankerClient::Supports(std::string_view language) const {
  const auto model = inference_->DefaultModel(
      RequestContext::Background().WithTimeout(kListTimeout), proto::MODEL_ROLE_RERANKER);
  if (!model.ok()) return false;
  for (const std::string& supported : model->languages()) {
    if (supported == language) return true;
  }
  return false;
}

absl::StatusOr<agent::ModelReply> ModelClient::Generate(const RequestContext& context,
                                                        const agent::ModelRequest& request,
                                                        const agent::TextCallback& on_text) {
  return inference_->Generate(context, request, on_text);
}

absl::StatusOr<int> ModelClient::CountTokens(const RequestContext& context, std::string_view text) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<int> counts,
                         inference_->CountTokens(context, "", {&text, 1}, /*as_passage=*/false));
  return counts[0];
}

absl::StatusOr<int> ModelClient::ContextWindow(const RequestContext& context) {
  CAIRN_ASSIGN_OR_RETURN(const proto::Model model,
                         inference_->DefaultModel(context, proto::MODEL_ROLE_GENERATOR));
  return model.max_tokens();
}

absl::StatusOr<std::vector<float>> ScorerClient::Similarity(
    const RequestContext& context, std::string_view text,
    std::span<const std::string_view> candidates) {
  // One kind for both sides: the question is how alike two sentences are, not whether one answers
  // the other.
  std::vector<std::string_view> texts = {text};
  texts.insert(texts.end(), candidates.begin(), candidates.end());
  CAIRN_ASSIGN_OR_RETURN(const auto response,
                         inference_->Embed(context, texts, proto::EMBED_KIND_QUERY));
  const auto& query = response.embeddings(0).values();
  std::vector<float> out;
  out.reserve(candidates.size());
  for (int i = 1; i < response.embeddings_size(); ++i) {
    const auto& values = response.embeddings(i).values();
    if (values.size() != query.size()) return absl::InternalError("vectors differ in size");
    float dot = 0;
    for (int d = 0; d < values.size(); ++d) dot += query[d] * values[d];
    out.push_back(dot);
  }
  return out;
}

}  // namespace cairn::services
