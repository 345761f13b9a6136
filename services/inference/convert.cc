#include "services/inference/convert.h"

#include <utility>

#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::inference::v1;

constexpr int kMaxMessages = 256;
constexpr size_t kMaxToolsBytes = 64 << 10;
constexpr int kDefaultMaxTokens = 512;

absl::Status CheckUtf8(std::string_view text, std::string_view field) {
  return IsValidUtf8(text) ? absl::OkStatus() : InvalidField(field, "must be UTF-8");
}

engine::SamplingParams ReadSampling(const proto::SamplingParams& in) {
  engine::SamplingParams out;
  out.temperature = in.temperature();
  out.top_k = in.top_k();
  if (in.has_top_p()) out.top_p = in.top_p();
  out.min_p = in.min_p();
  if (in.has_typical_p()) out.typical_p = in.typical_p();
  if (in.has_repetition_penalty()) out.repetition_penalty = in.repetition_penalty();
  out.presence_penalty = in.presence_penalty();
  out.frequency_penalty = in.frequency_penalty();
  out.dry_multiplier = in.dry_multiplier();
  if (in.has_dry_base()) out.dry_base = in.dry_base();
  if (in.has_dry_allowed_length()) out.dry_allowed_length = in.dry_allowed_length();
  out.dry_range = in.dry_range();
  out.allowed_tokens.assign(in.allowed_tokens().begin(), in.allowed_tokens().end());
  out.banned_tokens.assign(in.banned_tokens().begin(), in.banned_tokens().end());
  out.logit_bias.assign(in.logit_bias().begin(), in.logit_bias().end());
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

// A token may be a piece of a character: what is no UTF-8 by itself is shown as U+FFFD.
void WriteLogprobs(const std::vector<engine::TokenLogprob>& logprobs,
                   const engine::Tokenizer& tokenizer,
                   google::protobuf::RepeatedPtrField<proto::TokenLogprob>* out) {
  const auto text = [&](engine::TokenId id) { return SanitizeUtf8(tokenizer.TokenBytes(id)); };
  for (const engine::TokenLogprob& logprob : logprobs) {
    proto::TokenLogprob* item = out->Add();
    item->set_token(text(logprob.token));
    item->set_logprob(logprob.logprob);
    for (const auto& [token, value] : logprob.top) {
      auto* top = item->add_top();
      top->set_token(text(token));
      top->set_logprob(value);
    }
  }
}

}  // namespace

engine::GenerateOptions ReadGenerateOptions(const proto::GenerateRequest& request) {
  engine::GenerateOptions out;
  out.sampling = ReadSampling(request.sampling());
  out.n = request.n() == 0 ? 1 : request.n();
  out.max_tokens = request.max_tokens() == 0 ? kDefaultMaxTokens : request.max_tokens();
  out.min_tokens = request.min_tokens();
  out.stop.assign(request.stop().begin(), request.stop().end());
  out.include_stop = request.include_stop();
  out.stop_tokens.assign(request.stop_tokens().begin(), request.stop_tokens().end());
  out.ignore_eos = request.ignore_eos();
  out.echo = request.echo();
  out.logprobs = request.has_top_logprobs();
  out.top_logprobs = request.top_logprobs();
  out.prompt_logprobs = request.prompt_logprobs();
  out.priority = request.priority();
  out.prompt_lookup = !request.no_prompt_lookup();
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
  WriteLogprobs(result.logprobs, tokenizer, out->mutable_logprobs());
  WriteLogprobs(result.prompt_logprobs, tokenizer, out->mutable_prompt_logprobs());
}

}  // namespace cairn::services
