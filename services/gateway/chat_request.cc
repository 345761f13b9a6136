#include "services/gateway/chat_request.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/strings.h"

namespace cairn::services {
namespace {

using nlohmann::json;

// The member, or null when absent or null.
const json* Find(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

absl::Status ReadBool(const json& body, const char* key, bool* out) {
  const json* value = Find(body, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_boolean()) return InvalidField(key, "must be true or false");
  *out = value->get<bool>();
  return absl::OkStatus();
}

absl::Status ReadNumber(const json& body, const char* key, double low, double high,
                        std::optional<double>* out) {
  const json* value = Find(body, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_number()) return InvalidField(key, "must be a number");
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    return InvalidField(key, StrCat("is ", number, ", must be between ", low, " and ", high));
  }
  *out = number;
  return absl::OkStatus();
}

absl::Status ReadInt(const json& body, const char* key, int64_t low, int64_t high,
                     std::optional<int64_t>* out) {
  const json* value = Find(body, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_number_integer()) return InvalidField(key, "must be a whole number");
  const bool too_big =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(high);
  const int64_t number = too_big ? 0 : value->get<int64_t>();
  if (too_big || number < low || number > high) {
    return InvalidField(key,
                        StrCat("is ", value->dump(), ", must be between ", low, " and ", high));
  }
  *out = number;
  return absl::OkStatus();
}

absl::Status ReadString(const json& body, const char* key, std::string* out) {
  const json* value = Find(body, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_string()) return InvalidField(key, "must be a string");
  *out = value->get<std::string>();
  return absl::OkStatus();
}

// A string, or a list of parts {"type": "text", "text": ...}.
absl::StatusOr<std::string> ReadContent(const json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return InvalidField(where, "must be a string or a list of text parts");
  std::string text;
  for (const json& part : value) {
    if (!part.is_object() || part.value("type", json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return InvalidField(where, "only parts of type \"text\" can be read");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

absl::Status ReadMessages(const json& body, ChatRequest* request) {
  const json* messages = Find(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return InvalidField("messages", "must be a list with at least one message");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    const std::string where = StrCat("messages[", i, "]");
    const json& message = (*messages)[i];
    if (!message.is_object()) return InvalidField(where, "must be an object");
    ChatRequest::Message read;
    CAIRN_RETURN_IF_ERROR(ReadString(message, "role", &read.role));
    if (read.role == "developer") read.role = "system";
    if (read.role != "system" && read.role != "user" && read.role != "assistant") {
      return InvalidField(StrCat(where, ".role"),
                          StrCat("is \"", read.role, "\", must be system, user or assistant"));
    }
    if (Find(message, "tool_calls") != nullptr) {
      return InvalidField(StrCat(where, ".tool_calls"), "tool calls are not supported over HTTP");
    }
    const json* content = Find(message, "content");
    if (content == nullptr) return InvalidField(StrCat(where, ".content"), "is missing");
    CAIRN_ASSIGN_OR_RETURN(read.content, ReadContent(*content, StrCat(where, ".content")));
    request->messages.push_back(std::move(read));
  }
  return absl::OkStatus();
}

absl::Status ReadStop(const json& body, ChatRequest* request) {
  const json* stop = Find(body, "stop");
  if (stop == nullptr) return absl::OkStatus();
  if (stop->is_string()) {
    request->stop.push_back(stop->get<std::string>());
    return absl::OkStatus();
  }
  if (!stop->is_array()) return InvalidField("stop", "must be a string or a list of strings");
  for (const json& text : *stop) {
    if (!text.is_string()) return InvalidField("stop", "must be a string or a list of strings");
    request->stop.push_back(text.get<std::string>());
  }
  return absl::OkStatus();
}

// {"token id": bias}; ids are the model's, so a client must know its tokenizer.
absl::Status ReadLogitBias(const json& body, ChatRequest* request) {
  const json* biases = Find(body, "logit_bias");
  if (biases == nullptr) return absl::OkStatus();
  if (!biases->is_object()) return InvalidField("logit_bias", "must be an object");
  for (const auto& [key, value] : biases->items()) {
    int token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0) {
      return InvalidField("logit_bias", StrCat("\"", key.substr(0, 40), "\" is not a token id"));
    }
    std::optional<double> bias;
    if (!ReadNumber(*biases, key.c_str(), -100, 100, &bias).ok() || !bias) {
      return InvalidField("logit_bias",
                          StrCat("of token ", token, " must be a number between -100 and 100"));
    }
    request->logit_bias.emplace_back(token, static_cast<float>(*bias));
  }
  return absl::OkStatus();
}

// What the pipeline of answers from a collection sets itself.
absl::Status RefuseWithCollection(const ChatRequest& request) {
  if (request.collection.empty()) return absl::OkStatus();
  const char* field = request.presence_penalty != 0    ? "presence_penalty"
                      : request.frequency_penalty != 0 ? "frequency_penalty"
                      : !request.logit_bias.empty()    ? "logit_bias"
                                                       : nullptr;
  if (field == nullptr) return absl::OkStatus();
  return InvalidField(field, "is not supported together with \"collection\"");
}

// Features of the API that we do not have: a value that asks for them is an error.
absl::Status RefuseUnsupported(const json& body) {
  std::optional<int64_t> n;
  CAIRN_RETURN_IF_ERROR(ReadInt(body, "n", 1, 1, &n));
  for (const char* key : {"tools", "functions"}) {
    const json* value = Find(body, key);
    if (value != nullptr && !value->empty()) return InvalidField(key, "is not supported");
  }
  if (const json* format = Find(body, "response_format");
      format != nullptr && (!format->is_object() || format->value("type", json()) != "text")) {
    return InvalidField("response_format", "only {\"type\": \"text\"} is supported");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChatRequest> ParseChatRequest(std::string_view text) {
  const json body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  CAIRN_RETURN_IF_ERROR(RefuseUnsupported(body));
  ChatRequest request;
  CAIRN_RETURN_IF_ERROR(ReadString(body, "model", &request.model));
  CAIRN_RETURN_IF_ERROR(ReadMessages(body, &request));
  CAIRN_RETURN_IF_ERROR(ReadStop(body, &request));
  CAIRN_RETURN_IF_ERROR(ReadString(body, "collection", &request.collection));
  CAIRN_RETURN_IF_ERROR(ReadBool(body, "stream", &request.stream));
  if (const json* options = Find(body, "stream_options"); options != nullptr) {
    if (!options->is_object()) return InvalidField("stream_options", "must be an object");
    CAIRN_RETURN_IF_ERROR(ReadBool(*options, "include_usage", &request.include_usage));
  }

  std::optional<double> temperature, top_p;
  CAIRN_RETURN_IF_ERROR(ReadNumber(body, "temperature", 0, 2, &temperature));
  // Answers from documents are reproducible unless asked otherwise.
  request.temperature =
      static_cast<float>(temperature.value_or(request.collection.empty() ? 1 : 0));
  CAIRN_RETURN_IF_ERROR(ReadNumber(body, "top_p", 1e-6, 1, &top_p));
  if (top_p) request.top_p = static_cast<float>(*top_p);
  std::optional<double> presence, frequency;
  CAIRN_RETURN_IF_ERROR(ReadNumber(body, "presence_penalty", -2, 2, &presence));
  CAIRN_RETURN_IF_ERROR(ReadNumber(body, "frequency_penalty", -2, 2, &frequency));
  request.presence_penalty = static_cast<float>(presence.value_or(0));
  request.frequency_penalty = static_cast<float>(frequency.value_or(0));
  CAIRN_RETURN_IF_ERROR(ReadLogitBias(body, &request));
  CAIRN_RETURN_IF_ERROR(RefuseWithCollection(request));

  std::optional<int64_t> max_tokens, seed, top_logprobs;
  CAIRN_RETURN_IF_ERROR(ReadInt(body, "max_tokens", 1, 1 << 20, &max_tokens));
  CAIRN_RETURN_IF_ERROR(ReadInt(body, "max_completion_tokens", 1, 1 << 20, &max_tokens));
  request.max_tokens = static_cast<int>(max_tokens.value_or(0));
  CAIRN_RETURN_IF_ERROR(ReadInt(body, "seed", INT64_MIN, INT64_MAX, &seed));
  if (seed) request.seed = static_cast<uint64_t>(*seed);
  bool logprobs = false;
  CAIRN_RETURN_IF_ERROR(ReadBool(body, "logprobs", &logprobs));
  CAIRN_RETURN_IF_ERROR(ReadInt(body, "top_logprobs", 0, 20, &top_logprobs));
  if (top_logprobs && !logprobs) return InvalidField("top_logprobs", "needs \"logprobs\": true");
  if (logprobs) request.top_logprobs = static_cast<int>(top_logprobs.value_or(0));
  return request;
}

}  // namespace cairn::services
