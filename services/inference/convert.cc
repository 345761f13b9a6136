#include "services/inference/convert.h"

#include <cmath>
#include <utility>

#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::inference::v1;

constexpr int kMaxMessages = 256;
constexpr size_t kMaxToolsBytes = 64 << 10;
constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr int kMaxTopLogprobs = 20;
constexpr int kDefaultMaxTokens = 512;

absl::Status CheckUtf8(std::string_view text, std::string_view field) {
  return IsValidUtf8(text) ? absl::OkStatus() : InvalidField(field, "must be UTF-8");
}

absl::StatusOr<engine::SamplingParams> ReadSampling(const proto::SamplingParams& in) {
  engine::SamplingParams out;
  const auto check = [](bool good, std::string_view field, std::string_view range, double got) {
    return good
               ? absl::OkStatus()
               : InvalidField(StrCat("sampling.", field), StrCat("must be ", range, ", got ", got));
  };
  // Written so that NaN fails.
  CAIRN_RETURN_IF_ERROR(check(in.temperature() >= 0 && in.temperature() <= 10, "temperature",
                              "0 to 10", in.temperature()));
  CAIRN_RETURN_IF_ERROR(check(in.top_k() >= 0, "top_k", "0 or more", in.top_k()));
  if (in.has_top_p()) {
    CAIRN_RETURN_IF_ERROR(
        check(in.top_p() > 0 && in.top_p() <= 1, "top_p", "above 0 and at most 1", in.top_p()));
    out.top_p = in.top_p();
  }
  CAIRN_RETURN_IF_ERROR(
      check(in.min_p() >= 0 && in.min_p() < 1, "min_p", "0 or more and below 1", in.min_p()));
  if (in.has_repetition_penalty()) {
    CAIRN_RETURN_IF_ERROR(check(in.repetition_penalty() > 0 && in.repetition_penalty() <= 10,
                                "repetition_penalty", "above 0 and at most 10",
                                in.repetition_penalty()));
    out.repetition_penalty = in.repetition_penalty();
  }
  CAIRN_RETURN_IF_ERROR(check(in.presence_penalty() >= -2 && in.presence_penalty() <= 2,
                              "presence_penalty", "-2 to 2", in.presence_penalty()));
  CAIRN_RETURN_IF_ERROR(check(in.frequency_penalty() >= -2 && in.frequency_penalty() <= 2,
                              "frequency_penalty", "-2 to 2", in.frequency_penalty()));
  CAIRN_RETURN_IF_ERROR(check(in.logit_bias_size() <= static_cast<int>(engine::kMaxLogitBiases),
                              "logit_bias", StrCat("at most ", engine::kMaxLogitBiases, " tokens"),
                              in.logit_bias_size()));
  for (const auto& [token, bias] : in.logit_bias()) {
    CAIRN_RETURN_IF_ERROR(
        check(bias >= -100 && bias <= 100, "logit_bias", "-100 to 100 for each token", bias));
    out.logit_bias.emplace_back(token, bias);
  }
  out.presence_penalty = in.presence_penalty();
  out.frequency_penalty = in.frequency_penalty();
  out.temperature = in.temperature();
  out.top_k = in.top_k();
  out.min_p = in.min_p();
  // The engine reads 0 as "draw one"; a 0 that was asked for must be repeatable like any other
  // seed.
  if (in.has_seed()) out.seed = in.seed() == 0 ? 0x9e3779b97f4a7c15 : in.seed();
  return out;
}

absl::StatusOr<engine::ChatRole> ReadRole(proto::ChatRole role, std::string_view field) {
  switch (role) {
    case proto::CHAT_ROLE_SYSTEM:
      return engine::ChatRole::kSystem;
    case proto::CHAT_ROLE_USER:
      return engine::ChatRole::kUser;
    case proto::CHAT_ROLE_ASSISTANT:
      return engine::ChatRole::kAssistant;
    case proto::CHAT_ROLE_TOOL:
      return engine::ChatRole::kTool;
    default:
      return InvalidField(field, StrCat("must be a known role, got ", static_cast<int>(role)));
  }
}

void WriteDuration(absl::Duration duration, google::protobuf::Duration* out) {
  const int64_t ns = absl::ToInt64Nanoseconds(duration);
  out->set_seconds(ns / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(ns % 1'000'000'000));
}

}  // namespace

absl::StatusOr<engine::GenerateOptions> ReadGenerateOptions(const proto::GenerateRequest& request) {
  engine::GenerateOptions out;
  CAIRN_ASSIGN_OR_RETURN(out.sampling, ReadSampling(request.sampling()));
  if (request.max_tokens() < 0) {
    return InvalidField("max_tokens", StrCat("must be 1 or more, got ", request.max_tokens()));
  }
  out.max_tokens = request.max_tokens() == 0 ? kDefaultMaxTokens : request.max_tokens();
  if (request.stop_size() > kMaxStops) {
    return InvalidField("stop",
                        StrCat("at most ", kMaxStops, " strings, got ", request.stop_size()));
  }
  for (const std::string& stop : request.stop()) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return InvalidField("stop",
                          StrCat("a string is 1 to ", kMaxStopBytes, " bytes, got ", stop.size()));
    }
    CAIRN_RETURN_IF_ERROR(CheckUtf8(stop, "stop"));
    out.stop.push_back(stop);
  }
  if (request.has_top_logprobs()) {
    if (request.top_logprobs() < 0 || request.top_logprobs() > kMaxTopLogprobs) {
      return InvalidField("top_logprobs", StrCat("must be 0 to ", kMaxTopLogprobs, ", got ",
                                                 request.top_logprobs()));
    }
    out.logprobs = true;
    out.top_logprobs = request.top_logprobs();
  }
  return out;
}

absl::StatusOr<std::vector<engine::ChatMessage>> ReadChat(const proto::Chat& chat) {
  if (chat.messages_size() < 1 || chat.messages_size() > kMaxMessages) {
    return InvalidField("chat.messages",
                        StrCat("must hold 1 to ", kMaxMessages, ", got ", chat.messages_size()));
  }
  if (chat.tools_json().size() > kMaxToolsBytes) {
    return InvalidField("chat.tools_json", StrCat("at most ", kMaxToolsBytes, " bytes, got ",
                                                  chat.tools_json().size()));
  }
  std::vector<engine::ChatMessage> out;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const std::string field = StrCat("chat.messages[", i, "]");
    engine::ChatMessage message;
    CAIRN_ASSIGN_OR_RETURN(message.role, ReadRole(chat.messages(i).role(), field + ".role"));
    CAIRN_RETURN_IF_ERROR(CheckUtf8(chat.messages(i).content(), field + ".content"));
    message.content = chat.messages(i).content();
    out.push_back(std::move(message));
  }
  return out;
}

absl::StatusOr<engine::TextKind> ReadEmbedKind(proto::EmbedKind kind) {
  switch (kind) {
    case proto::EMBED_KIND_QUERY:
      return engine::TextKind::kQuery;
    case proto::EMBED_KIND_PASSAGE:
      return engine::TextKind::kPassage;
    case proto::EMBED_KIND_RAW:
      return engine::TextKind::kRaw;
    default:
      return InvalidField("kind", StrCat("must be a known kind, got ", static_cast<int>(kind)));
  }
}

absl::StatusOr<std::vector<std::string_view>> ReadTexts(
    const google::protobuf::RepeatedPtrField<std::string>& texts, std::string_view field,
    int max_count, bool blank_allowed) {
  if (texts.empty() || texts.size() > max_count) {
    return InvalidField(field, StrCat("must hold 1 to ", max_count, ", got ", texts.size()));
  }
  std::vector<std::string_view> out;
  out.reserve(texts.size());
  for (int i = 0; i < texts.size(); ++i) {
    const std::string name = StrCat(field, "[", i, "]");
    CAIRN_RETURN_IF_ERROR(CheckUtf8(texts[i], name));
    if (!blank_allowed && texts[i].find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
      return InvalidField(name, "must not be blank");
    }
    out.push_back(texts[i]);
  }
  return out;
}

void WriteResult(const engine::GenerateResult& result, const engine::Tokenizer& tokenizer,
                 proto::GenerateCompleted* out) {
  out->set_finish_reason(result.finish_reason == engine::FinishReason::kLength
                             ? proto::FINISH_REASON_LENGTH
                             : proto::FINISH_REASON_STOP);
  out->mutable_usage()->set_prompt_tokens(result.prompt_tokens);
  out->mutable_usage()->set_completion_tokens(result.completion_tokens);
  out->mutable_usage()->set_cached_tokens(result.cached_tokens);
  WriteDuration(result.queue_time + result.prefill_time, out->mutable_time_to_first_token());
  WriteDuration(result.queue_time + result.prefill_time + result.decode_time,
                out->mutable_total_time());
  // A token may be a piece of a character: what is no UTF-8 by itself is shown as U+FFFD.
  const auto text = [&](engine::TokenId id) { return SanitizeUtf8(tokenizer.TokenBytes(id)); };
  for (const engine::TokenLogprob& logprob : result.logprobs) {
    auto* item = out->add_logprobs();
    item->set_token(text(logprob.token));
    item->set_logprob(logprob.logprob);
    for (const auto& [token, value] : logprob.top) {
      auto* top = item->add_top();
      top->set_token(text(token));
      top->set_logprob(value);
    }
  }
}

}  // namespace cairn::services
