#include "services/gateway/openai_api.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "cairn/agent/v1/agent_service.grpc.pb.h"
#include "cairn/inference/v1/inference_service.grpc.pb.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "services/gateway/chat_request.h"
#include "services/runtime/status_map.h"

namespace cairn::services {
namespace {

namespace inference = cairn::inference::v1;
namespace agent = cairn::agent::v1;
using nlohmann::json;

constexpr char kJson[] = "application/json";
constexpr int kClientClosed = 499;  // nginx's word for it; only logs see it

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return kClientClosed;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

json ErrorBody(const absl::Status& status) {
  const int code = HttpCode(status);
  const std::string field = FieldOf(status), reason = ReasonOf(status);
  std::string word = reason == "CONTEXT_OVERFLOW"  ? "context_length_exceeded"
                     : reason == "MODEL_NOT_FOUND" ? "model_not_found"
                                                   : absl::AsciiStrToLower(reason);
  return {{"error",
           {{"message", std::string(status.message())},
            {"type", code == 401   ? "authentication_error"
                     : code == 429 ? "rate_limit_error"
                     : code < 500  ? "invalid_request_error"
                                   : "server_error"},
            {"param", field.empty() ? json() : json(field)},
            {"code", word.empty() ? json() : json(word)}}}};
}

void SendError(const absl::Status& status, const HttpHeaders& cors, ResponseWriter& response) {
  HttpHeaders headers = cors;
  if (const auto delay = RetryAfterOf(status)) {
    headers.emplace_back(
        "Retry-After",
        StrCat(std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1))))));
  }
  response.Send(HttpCode(status), kJson, Dump(ErrorBody(status)), std::move(headers));
}

// A client call that ends with the HTTP request.
struct Call {
  explicit Call(const RequestContext& request)
      : registration(request.OnCancel([this] { context.TryCancel(); })) {
    context.set_deadline(absl::ToChronoTime(request.deadline()));
  }
  grpc::ClientContext context;
  CancelRegistration registration;
};

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i % std::max<size_t>(1, b.size())]);
  return difference == 0 && !b.empty();
}

json UsageJson(const cairn::common::v1::TokenUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens()},
          {"completion_tokens", usage.completion_tokens()},
          {"total_tokens", usage.prompt_tokens() + usage.completion_tokens()},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens()}}}};
}

// Writes one chat completion in either form: pieces as they come, or one object at the end.
class ChatWriter {
 public:
  ChatWriter(const ChatRequest& request, std::string model, const HttpHeaders& cors,
             ResponseWriter& response)
      : request_(request), model_(std::move(model)), cors_(cors), response_(response) {
    static std::atomic<uint64_t> counter{0};
    id_ = StrCat("chatcmpl-", absl::Hex(absl::ToUnixNanos(absl::Now())), "-", ++counter);
    created_ = absl::ToUnixSeconds(absl::Now());
  }

  // False when the client is gone.
  bool Text(std::string_view text) {
    text_.append(text);
    if (!request_.stream) return true;
    return Begin() && SendChunk({{"content", std::string(text)}}, nullptr);
  }

  void Fail(const absl::Status& status) {
    if (!begun_) return SendError(status, cors_, response_);
    SendEvent(Dump(ErrorBody(status)));
    SendEvent("[DONE]");
    response_.EndStream();
  }

  // `extra` are the documented extension fields of the message.
  void Complete(const char* finish_reason, const cairn::common::v1::TokenUsage& usage,
                const json& extra, const json& logprobs) {
    if (request_.stream) {
      if (!Begin()) return response_.EndStream();
      if (!extra.empty()) SendChunk(extra, nullptr);
      SendChunk(json::object(), finish_reason, logprobs);
      if (request_.include_usage) {
        json last = Envelope("chat.completion.chunk");
        last["choices"] = json::array();
        last["usage"] = UsageJson(usage);
        SendEvent(Dump(last));
      }
      SendEvent("[DONE]");
      return response_.EndStream();
    }
    json message = {{"role", "assistant"}, {"content", text_}, {"refusal", nullptr}};
    message.update(extra);
    json body = Envelope("chat.completion");
    body["choices"] = json::array({{{"index", 0},
                                    {"message", std::move(message)},
                                    {"logprobs", logprobs},
                                    {"finish_reason", finish_reason}}});
    body["usage"] = UsageJson(usage);
    response_.Send(200, kJson, Dump(body), cors_);
  }

 private:
  json Envelope(const char* object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
  }

  bool Begin() {
    if (begun_) return true;
    begun_ = true;
    HttpHeaders headers = cors_;
    headers.emplace_back("Cache-Control", "no-cache");
    return response_.BeginStream(200, "text/event-stream", std::move(headers)) &&
           SendChunk({{"role", "assistant"}, {"content", ""}}, nullptr);
  }

  bool SendChunk(json delta, const char* finish_reason, const json& logprobs = nullptr) {
    json chunk = Envelope("chat.completion.chunk");
    chunk["choices"] =
        json::array({{{"index", 0},
                      {"delta", std::move(delta)},
                      {"logprobs", logprobs},
                      {"finish_reason", finish_reason ? json(finish_reason) : json()}}});
    if (request_.include_usage) chunk["usage"] = nullptr;
    return SendEvent(Dump(chunk));
  }

  bool SendEvent(std::string_view data) { return response_.Write(StrCat("data: ", data, "\n\n")); }

  const ChatRequest& request_;
  const std::string model_;
  const HttpHeaders& cors_;
  ResponseWriter& response_;
  std::string id_;
  int64_t created_;
  std::string text_;
  bool begun_ = false;
};

json LogprobsJson(const inference::GenerateCompleted& completed) {
  if (completed.logprobs().empty()) return nullptr;
  json content = json::array();
  for (const inference::TokenLogprob& token : completed.logprobs()) {
    json top = json::array();
    for (const inference::TopLogprob& alternative : token.top()) {
      top.push_back(
          {{"token", alternative.token()}, {"logprob", alternative.logprob()}, {"bytes", nullptr}});
    }
    content.push_back({{"token", token.token()},
                       {"logprob", token.logprob()},
                       {"bytes", nullptr},
                       {"top_logprobs", top}});
  }
  return {{"content", content}, {"refusal", nullptr}};
}

// Turns an answer's sentences into text with numbered marks: a sentence's marks go behind its last
// visible byte.
class MarkedAnswer {
 public:
  // Text as it streamed; held until the sentence that it belongs to is known.
  void Add(std::string_view text) { pending_.append(text); }

  // What can be sent now that `sentence` is known.
  std::string Take(const agent::AskSentence& sentence) {
    const uint64_t end = sentence.answer_span().end();
    if (end < taken_ || end - taken_ > pending_.size()) return TakeAll();
    std::string text = pending_.substr(0, end - taken_);
    pending_.erase(0, end - taken_);
    taken_ = end;
    std::string space;
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) {
      space.insert(space.begin(), text.back());
      text.pop_back();
    }
    std::vector<int> numbers;
    for (const agent::Citation& citation : sentence.citations()) {
      if (std::find(numbers.begin(), numbers.end(), citation.source_number()) == numbers.end()) {
        numbers.push_back(citation.source_number());
      }
    }
    for (int number : numbers) StrAppend(&text, "[", number, "]");
    return text + space;
  }

  std::string TakeAll() {
    taken_ += pending_.size();
    return std::exchange(pending_, {});
  }

 private:
  std::string pending_;
  uint64_t taken_ = 0;
};

json CitationsJson(const agent::AskCompleted& completed, const agent::AskSources& sources) {
  json citations = json::array(), unsupported = json::array();
  for (const agent::AskSentence& sentence : completed.sentences()) {
    const std::string text = completed.answer().substr(
        std::min<size_t>(sentence.answer_span().begin(), completed.answer().size()),
        sentence.answer_span().end() - sentence.answer_span().begin());
    if (!sentence.supported()) {
      json problems = json::array();
      for (const std::string& problem : sentence.problems()) problems.push_back(problem);
      unsupported.push_back({{"text", text}, {"problems", problems}});
    }
    for (const agent::Citation& citation : sentence.citations()) {
      json heading = json::array();
      std::string title;
      for (const agent::Source& source : sources.sources()) {
        if (source.number() != citation.source_number()) continue;
        title = source.title();
        for (const std::string& part : source.heading_path()) heading.push_back(part);
      }
      json entry = {{"number", citation.source_number()},
                    {"document_id", citation.document_id()},
                    {"version", citation.version()},
                    {"chunk_id", citation.chunk_id()},
                    {"title", title},
                    {"heading_path", heading},
                    {"span", {{"begin", citation.span().begin()}, {"end", citation.span().end()}}},
                    {"text", citation.text()},
                    {"score", citation.score()},
                    {"sentence", text}};
      // The exact bytes: as text where they are UTF-8, else in base64.
      if (IsValidUtf8(citation.quote())) {
        entry["quote"] = citation.quote();
      } else {
        entry["quote_base64"] = absl::Base64Escape(citation.quote());
      }
      citations.push_back(std::move(entry));
    }
  }
  return {
      {"citations", citations},
      {"cairn", {{"abstained", completed.abstained()}, {"unsupported_sentences", unsupported}}}};
}

class OpenAiApi {
 public:
  OpenAiApi(OpenAiApiOptions options, const std::shared_ptr<grpc::Channel>& inference_channel,
            const std::shared_ptr<grpc::Channel>& agent_channel)
      : options_(std::move(options)),
        inference_(inference::InferenceService::NewStub(inference_channel)),
        agent_(agent::AgentService::NewStub(agent_channel)) {}

  void Handle(const RequestContext& context, const HttpRequest& request, ResponseWriter& response) {
    const HttpHeaders cors = CorsHeaders(request);
    if (request.method == "OPTIONS") return response.Send(204, kJson, "", cors);
    if (request.path == "/healthz") return response.Send(200, "text/plain", "ok\n", cors);
    if (request.path == "/readyz") {
      const bool ready = options_.ready();
      return response.Send(ready ? 200 : 503, "text/plain", options_.readiness() + "\n", cors);
    }
    if (!Authorised(request)) {
      HttpHeaders headers = cors;
      headers.emplace_back("WWW-Authenticate", "Bearer");
      return response.Send(
          401, kJson,
          Dump(ErrorBody(WithReason(
              absl::UnauthenticatedError("a valid API key is needed: Authorization: Bearer KEY"),
              "INVALID_API_KEY"))),
          std::move(headers));
    }
    const absl::Status status = Route(context, request, cors, response);
    if (!status.ok()) SendError(status, cors, response);
  }

 private:
  HttpHeaders CorsHeaders(const HttpRequest& request) const {
    const auto origin = request.headers.find("origin");
    if (origin == request.headers.end()) return {};
    for (const std::string& allowed : options_.cors_origins) {
      if (allowed != "*" && allowed != origin->second) continue;
      return {{"Access-Control-Allow-Origin", origin->second},
              {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
              {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
              {"Vary", "Origin"}};
    }
    return {};
  }

  bool Authorised(const HttpRequest& request) const {
    if (options_.api_key.empty()) return true;
    const auto header = request.headers.find("authorization");
    static constexpr std::string_view kBearer = "Bearer ";
    return header != request.headers.end() && header->second.starts_with(kBearer) &&
           ConstantTimeEquals(std::string_view(header->second).substr(kBearer.size()),
                              options_.api_key);
  }

  absl::Status Route(const RequestContext& context, const HttpRequest& request,
                     const HttpHeaders& cors, ResponseWriter& response) {
    static constexpr std::string_view kModels = "/v1/models/";
    const bool get = request.method == "GET" || request.method == "HEAD";
    auto need = [&](bool right, const char* method) -> absl::Status {
      if (right) return absl::OkStatus();
      HttpHeaders headers = cors;
      headers.emplace_back("Allow", method);
      response.Send(405, kJson, Dump(ErrorBody(absl::InvalidArgumentError(StrCat("use ", method)))),
                    headers);
      return absl::OkStatus();
    };
    if (request.path == "/metrics") {
      if (!get) return need(false, "GET");
      response.Send(200, "text/plain; version=0.0.4", options_.metrics(), cors);
      return absl::OkStatus();
    }
    if (request.path == "/v1/models" || request.path.starts_with(kModels)) {
      if (!get) return need(false, "GET");
      return Models(context,
                    request.path == "/v1/models" ? "" : request.path.substr(kModels.size()), cors,
                    response);
    }
    const bool chat = request.path == "/v1/chat/completions";
    if (chat || request.path == "/v1/embeddings") {
      if (request.method != "POST") return need(false, "POST");
      // A page of another site cannot send this type without asking first (CORS).
      const auto type = request.headers.find("content-type");
      if (type == request.headers.end() || !type->second.starts_with(kJson)) {
        response.Send(
            415, kJson,
            Dump(ErrorBody(absl::InvalidArgumentError("Content-Type must be application/json"))),
            cors);
        return absl::OkStatus();
      }
      return chat ? ChatCompletions(context, request.body, cors, response)
                  : Embeddings(context, request.body, cors, response);
    }
    return absl::NotFoundError(StrCat("no such path: ", SanitizeUtf8(request.path)));
  }

  absl::Status Models(const RequestContext& context, const std::string& name,
                      const HttpHeaders& cors, ResponseWriter& response) {
    Call call(context);
    inference::ListModelsResponse models;
    CAIRN_RETURN_IF_ERROR(FromGrpc(inference_->ListModels(&call.context, {}, &models)));
    json data = json::array();
    for (const inference::Model& model : models.models()) {
      if (!model.ready()) continue;
      json entry = {
          {"id", model.name()}, {"object", "model"}, {"created", 0}, {"owned_by", "cairn"}};
      if (model.name() == name) {
        response.Send(200, kJson, Dump(entry), cors);
        return absl::OkStatus();
      }
      data.push_back(std::move(entry));
    }
    if (!name.empty())
      return WithReason(absl::NotFoundError(StrCat("no model ", SanitizeUtf8(name))),
                        "MODEL_NOT_FOUND");
    response.Send(200, kJson, Dump({{"object", "list"}, {"data", data}}), cors);
    return absl::OkStatus();
  }

  absl::Status Embeddings(const RequestContext& context, const std::string& text,
                          const HttpHeaders& cors, ResponseWriter& response) {
    const json body = json::parse(text, nullptr, false);
    if (!body.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
    inference::EmbedRequest request;
    const json model = body.value("model", json(""));
    if (!model.is_string()) return InvalidField("model", "must be a string");
    request.set_model(model.get<std::string>());
    const json input = body.value("input", json());
    for (const json& one : input.is_array() ? input : json::array({input})) {
      if (!one.is_string()) return InvalidField("input", "must be a string or a list of strings");
      request.add_texts(one.get<std::string>());
    }
    // Extension: "input_type": "query" or "passage" chooses the model's prefix.
    const json kind = body.value("input_type", json("raw"));
    if (kind != "query" && kind != "passage" && kind != "raw") {
      return InvalidField("input_type", "must be query, passage or raw");
    }
    request.set_kind(kind == "query"     ? inference::EMBED_KIND_QUERY
                     : kind == "passage" ? inference::EMBED_KIND_PASSAGE
                                         : inference::EMBED_KIND_RAW);
    const json format = body.value("encoding_format", json("float"));
    if (format != "float" && format != "base64")
      return InvalidField("encoding_format", "must be float or base64");

    Call call(context);
    inference::EmbedResponse embedded;
    CAIRN_RETURN_IF_ERROR(FromGrpc(inference_->Embed(&call.context, request, &embedded)));
    json data = json::array();
    int tokens = 0;
    for (int i = 0; i < embedded.embeddings_size(); ++i) {
      const inference::Embedding& embedding = embedded.embeddings(i);
      tokens += embedding.token_count();
      json vector;
      if (format == "base64") {
        vector = absl::Base64Escape(
            absl::string_view(reinterpret_cast<const char*>(embedding.values().data()),
                              static_cast<size_t>(embedding.values_size()) * sizeof(float)));
      } else {
        vector = std::vector<float>(embedding.values().begin(), embedding.values().end());
      }
      data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
    }
    response.Send(200, kJson,
                  Dump({{"object", "list"},
                        {"data", data},
                        {"model", embedded.model()},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}),
                  cors);
    return absl::OkStatus();
  }

  absl::Status ChatCompletions(const RequestContext& context, const std::string& text,
                               const HttpHeaders& cors, ResponseWriter& response) {
    CAIRN_ASSIGN_OR_RETURN(ChatRequest request, ParseChatRequest(text));
    ChatWriter writer(request, request.model, cors, response);
    const absl::Status status = request.collection.empty() ? Generate(context, request, writer)
                                                           : Ask(context, request, writer);
    if (!status.ok()) writer.Fail(status);
    return absl::OkStatus();
  }

  absl::Status Generate(const RequestContext& context, const ChatRequest& request,
                        ChatWriter& writer) {
    inference::GenerateRequest generate;
    generate.set_model(request.model);
    for (const ChatRequest::Message& message : request.messages) {
      inference::ChatMessage* added = generate.mutable_chat()->add_messages();
      added->set_content(message.content);
      added->set_role(message.role == "system" ? inference::CHAT_ROLE_SYSTEM
                      : message.role == "user" ? inference::CHAT_ROLE_USER
                                               : inference::CHAT_ROLE_ASSISTANT);
    }
    generate.mutable_sampling()->set_temperature(request.temperature);
    if (request.top_p) generate.mutable_sampling()->set_top_p(*request.top_p);
    if (request.seed) generate.mutable_sampling()->set_seed(*request.seed);
    generate.mutable_sampling()->set_presence_penalty(request.presence_penalty);
    generate.mutable_sampling()->set_frequency_penalty(request.frequency_penalty);
    for (const auto& [token, bias] : request.logit_bias) {
      (*generate.mutable_sampling()->mutable_logit_bias())[token] = bias;
    }
    generate.set_max_tokens(request.max_tokens);
    for (const std::string& stop : request.stop) generate.add_stop(stop);
    if (request.top_logprobs) generate.set_top_logprobs(*request.top_logprobs);

    Call call(context);
    auto reader = inference_->Generate(&call.context, generate);
    inference::GenerateResponse event;
    inference::GenerateCompleted completed;
    while (reader->Read(&event)) {
      if (event.has_completed()) completed = event.completed();
      if (event.has_text_delta() && !writer.Text(event.text_delta().text()))
        call.context.TryCancel();
    }
    CAIRN_RETURN_IF_ERROR(FromGrpc(reader->Finish()));
    writer.Complete(
        completed.finish_reason() == inference::FINISH_REASON_LENGTH ? "length" : "stop",
        completed.usage(), json::object(), LogprobsJson(completed));
    return absl::OkStatus();
  }

  absl::Status Ask(const RequestContext& context, const ChatRequest& request, ChatWriter& writer) {
    agent::AskRequest ask;
    ask.set_collection(request.collection);
    if (request.messages.back().role != "user") {
      return InvalidField("messages", "the last message must be the user's question");
    }
    ask.set_question(request.messages.back().content);
    for (size_t i = 0; i + 1 < request.messages.size(); ++i) {
      if (request.messages[i].role == "system")
        continue;  // the pipeline has instructions of its own
      agent::HistoryTurn* turn = ask.add_history();
      turn->set_role(request.messages[i].role);
      turn->set_content(request.messages[i].content);
    }
    ask.set_temperature(request.temperature);
    ask.set_max_tokens(request.max_tokens);
    if (request.seed) ask.set_seed(*request.seed);

    Call call(context);
    auto reader = agent_->Ask(&call.context, ask);
    agent::AskResponse event;
    agent::AskSources sources;
    agent::AskCompleted completed;
    MarkedAnswer answer;
    while (reader->Read(&event)) {
      bool open = true;
      if (event.has_sources()) sources = event.sources();
      if (event.has_text()) answer.Add(event.text().text());
      if (event.has_sentence()) open = writer.Text(answer.Take(event.sentence()));
      if (event.has_completed()) completed = event.completed();
      if (!open) call.context.TryCancel();
    }
    CAIRN_RETURN_IF_ERROR(FromGrpc(reader->Finish()));
    if (const std::string rest = answer.TakeAll(); !rest.empty()) writer.Text(rest);
    writer.Complete("stop", completed.usage(), CitationsJson(completed, sources), nullptr);
    return absl::OkStatus();
  }

  const OpenAiApiOptions options_;
  const std::unique_ptr<inference::InferenceService::Stub> inference_;
  const std::unique_ptr<agent::AgentService::Stub> agent_;
};

}  // namespace

HttpHandler MakeOpenAiApi(OpenAiApiOptions options, std::shared_ptr<grpc::Channel> inference,
                          std::shared_ptr<grpc::Channel> agent) {
  auto api = std::make_shared<OpenAiApi>(std::move(options), inference, agent);
  return [api](const RequestContext& context, const HttpRequest& request,
               ResponseWriter& response) { api->Handle(context, request, response); };
}

}  // namespace cairn::services
