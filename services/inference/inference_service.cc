#include "services/inference/inference_service.h"

#include <utility>

#include "cairn/inference/v1/inference_service.grpc.pb.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "services/inference/convert.h"
#include "services/runtime/calls.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::inference::v1;

constexpr int kMaxEmbedTexts = 1024;
constexpr int kMaxPassages = 1024;
constexpr int kMaxTokenizeTexts = 4096;

absl::StatusOr<std::vector<engine::TokenId>> PromptTokens(const engine::Engine& engine,
                                                          const proto::GenerateRequest& request) {
  switch (request.input_case()) {
    case proto::GenerateRequest::kChat: {
      CAIRN_ASSIGN_OR_RETURN(const auto messages, ReadChat(request.chat()));
      auto tokens = engine.chat_template().Render(messages, engine.tokenizer(),
                                                  /*add_generation_prompt=*/true,
                                                  request.chat().tools_json());
      if (absl::IsInvalidArgument(tokens.status()) && FieldOf(tokens.status()).empty()) {
        return InvalidField("chat", ToStd(tokens.status().message()));
      }
      return tokens;
    }
    case proto::GenerateRequest::kPrompt: {
      if (!IsValidUtf8(request.prompt())) return InvalidField("prompt", "must be UTF-8");
      auto tokens = engine.tokenizer().Encode(request.prompt(), {.add_special = true});
      if (tokens.empty()) return InvalidField("prompt", "must not be empty");
      return tokens;
    }
    case proto::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return InvalidField("input", "needs chat or prompt");
}

absl::Status Generate(const ModelPool& models, const RequestContext& context,
                      const proto::GenerateRequest& request,
                      StreamWriter<proto::GenerateResponse>* out) {
  const engine::GenerateOptions options = ReadGenerateOptions(request);
  CAIRN_ASSIGN_OR_RETURN(engine::Engine * engine, models.Generator(request.model()));
  if (options.max_tokens > engine->max_context()) {
    return InvalidField(
        "max_tokens", StrCat("must be 1 to ", engine->max_context(), ", got ", options.max_tokens));
  }
  CAIRN_ASSIGN_OR_RETURN(const auto prompt, PromptTokens(*engine, request));
  const auto on_text = [out](int choice, std::string_view delta) {
    proto::GenerateResponse event;
    event.mutable_text_delta()->set_text(std::string(delta));
    event.mutable_text_delta()->set_choice(choice);
    return out->Write(std::move(event));
  };
  CAIRN_ASSIGN_OR_RETURN(const std::vector<engine::GenerateResult> results,
                         engine->GenerateMany(context, prompt, options, on_text));
  for (size_t i = 0; i < results.size(); ++i) {
    proto::GenerateResponse last;
    WriteResult(results[i], engine->tokenizer(), last.mutable_completed());
    last.mutable_completed()->set_choice(static_cast<int>(i));
    if (results[i].finish_reason == engine::FinishReason::kCancelled ||
        !out->Write(std::move(last))) {
      return absl::CancelledError("request cancelled");
    }
  }
  return absl::OkStatus();
}

absl::Status Embed(const ModelPool& models, const RequestContext& context,
                   const proto::EmbedRequest& request, proto::EmbedResponse* response) {
  CAIRN_ASSIGN_OR_RETURN(const engine::TextKind kind, ReadEmbedKind(request.kind()));
  CAIRN_ASSIGN_OR_RETURN(const auto texts, ReadTexts(request.texts(), "texts", kMaxEmbedTexts,
                                                     /*blank_allowed=*/false));
  CAIRN_ASSIGN_OR_RETURN(engine::Encoder * encoder, models.Embedder(request.model()));
  CAIRN_ASSIGN_OR_RETURN(const engine::EmbedResult result, encoder->Embed(context, texts, kind));
  response->set_model(request.model().empty() ? models.DefaultName(ModelRole::kEmbedder)
                                              : request.model());
  response->set_fingerprint(encoder->fingerprint());
  const size_t dimension = encoder->dimension();
  for (size_t i = 0; i < texts.size(); ++i) {
    auto* embedding = response->add_embeddings();
    const float* row = result.vectors.data() + i * dimension;
    embedding->mutable_values()->Add(row, row + dimension);
    embedding->set_token_count(result.token_counts[i]);
    embedding->set_truncated(result.truncated[i]);
  }
  return absl::OkStatus();
}

absl::Status Rerank(const ModelPool& models, const RequestContext& context,
                    const proto::RerankRequest& request, proto::RerankResponse* response) {
  if (!IsValidUtf8(request.query())) return InvalidField("query", "must be UTF-8");
  if (request.query().find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
    return InvalidField("query", "must not be blank");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto passages,
                         ReadTexts(request.passages(), "passages", kMaxPassages,
                                   /*blank_allowed=*/true));
  CAIRN_ASSIGN_OR_RETURN(engine::Encoder * encoder, models.Reranker(request.model()));
  CAIRN_ASSIGN_OR_RETURN(const engine::RerankResult result,
                         encoder->Rerank(context, request.query(), passages));
  response->set_model(request.model().empty() ? models.DefaultName(ModelRole::kReranker)
                                              : request.model());
  for (size_t i = 0; i < passages.size(); ++i) {
    auto* score = response->add_scores();
    score->set_logit(result.scores[i]);
    score->set_truncated(result.truncated[i]);
  }
  return absl::OkStatus();
}

absl::Status Tokenize(const ModelPool& models, const RequestContext& context,
                      const proto::TokenizeRequest& request, proto::TokenizeResponse* response) {
  CAIRN_ASSIGN_OR_RETURN(const auto texts, ReadTexts(request.texts(), "texts", kMaxTokenizeTexts,
                                                     /*blank_allowed=*/true));
  CAIRN_ASSIGN_OR_RETURN(const ModelStatus model, models.Find(request.model()));
  const engine::Tokenizer& tokenizer =
      model.engine != nullptr ? model.engine->tokenizer() : model.encoder->tokenizer();
  std::string prefix;
  if (request.as_passage() && model.encoder != nullptr) {
    prefix = std::string(model.encoder->prefix(engine::TextKind::kPassage));
  }
  for (std::string_view text : texts) {
    CAIRN_RETURN_IF_ERROR(context.Check());
    const auto ids = tokenizer.Encode(prefix.empty() ? text : StrCat(prefix, text),
                                      {.add_special = request.as_passage()});
    auto* tokens = response->add_tokens();
    tokens->set_count(static_cast<int32_t>(ids.size()));
    if (!request.count_only()) tokens->mutable_ids()->Add(ids.begin(), ids.end());
  }
  return absl::OkStatus();
}

void WriteModel(const ModelPool& models, const ModelStatus& status, proto::Model* out) {
  out->set_name(status.name);
  out->set_is_default(models.DefaultName(status.role) == status.name);
  out->set_ready(status.state == ModelStatus::State::kReady);
  switch (status.role) {
    case ModelRole::kGenerator:
      out->set_role(proto::MODEL_ROLE_GENERATOR);
      break;
    case ModelRole::kEmbedder:
      out->set_role(proto::MODEL_ROLE_EMBEDDER);
      break;
    case ModelRole::kReranker:
      out->set_role(proto::MODEL_ROLE_RERANKER);
      for (const std::string& language : status.languages) out->add_languages(language);
      break;
  }
  if (status.engine != nullptr) {
    out->set_max_tokens(status.engine->max_context());
    out->set_architecture(status.engine->architecture());
    out->set_weight_bytes(status.engine->weight_bytes());
  }
  if (status.encoder != nullptr) {
    out->set_max_tokens(status.encoder->max_tokens());
    out->set_dimension(status.encoder->dimension());
    if (status.role == ModelRole::kEmbedder) out->set_fingerprint(status.encoder->fingerprint());
    out->set_architecture("bert");
    out->set_weight_bytes(status.encoder->weight_bytes());
  }
}

#define METHOD(name) "cairn.inference.v1.InferenceService/" name

class Service final : public proto::InferenceService::CallbackService {
 public:
  Service(const CallRuntime& runtime, const ModelPool* models)
      : runtime_(runtime), models_(*models) {}

 private:
  grpc::ServerWriteReactor<proto::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const proto::GenerateRequest* request) override {
    return ServeStream<proto::GenerateResponse>(
        runtime_, METHOD("Generate"), context,
        [this, request](const RequestContext& c, StreamWriter<proto::GenerateResponse>* out) {
          return services::Generate(models_, c, *request, out);
        });
  }
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context,
                                  const proto::EmbedRequest* request,
                                  proto::EmbedResponse* response) override {
    return ServeUnary(runtime_, METHOD("Embed"), context, [=, this](const RequestContext& c) {
      return services::Embed(models_, c, *request, response);
    });
  }
  grpc::ServerUnaryReactor* Rerank(grpc::CallbackServerContext* context,
                                   const proto::RerankRequest* request,
                                   proto::RerankResponse* response) override {
    return ServeUnary(runtime_, METHOD("Rerank"), context, [=, this](const RequestContext& c) {
      return services::Rerank(models_, c, *request, response);
    });
  }
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const proto::TokenizeRequest* request,
                                     proto::TokenizeResponse* response) override {
    return ServeUnary(runtime_, METHOD("Tokenize"), context, [=, this](const RequestContext& c) {
      return services::Tokenize(models_, c, *request, response);
    });
  }
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const proto::ListModelsRequest*,
                                       proto::ListModelsResponse* response) override {
    return ServeUnary(runtime_, METHOD("ListModels"), context, [=, this](const RequestContext&) {
      for (const ModelStatus& status : models_.List())
        WriteModel(models_, status, response->add_models());
      return absl::OkStatus();
    });
  }

  const CallRuntime& runtime_;
  const ModelPool& models_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeInferenceService(const CallRuntime& runtime,
                                                    const ModelPool* models) {
  return std::make_unique<Service>(runtime, models);
}

}  // namespace cairn::services
