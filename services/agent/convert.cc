#include "services/agent/convert.h"

#include <utility>
#include <variant>

#include "common/strings.h"
#include "common/utf8.h"
#include "services/retrieval/convert.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::agent::v1;

constexpr size_t kMaxTextBytes = 8 << 10;
constexpr int kMaxHistoryTurns = 64;
constexpr size_t kMaxSessionIdBytes = 128;
constexpr int kMaxTopK = 64;
constexpr int kMaxAnswerTokens = 4096;
constexpr int kMaxRunTurns = 100;
constexpr int kMaxRunToolCalls = 200;
constexpr int64_t kMaxRunTokens = 10'000'000;
constexpr absl::Duration kMaxRunTime = absl::Hours(24);

absl::Status CheckText(std::string_view text, std::string_view field) {
  if (!IsValidUtf8(text)) return InvalidField(field, "must be UTF-8");
  if (text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos) {
    return InvalidField(field, "must not be blank");
  }
  if (text.size() > kMaxTextBytes) {
    return InvalidField(field, StrCat("at most ", kMaxTextBytes, " bytes, got ", text.size()));
  }
  return absl::OkStatus();
}

// 0 means "not given": `*out` keeps its default.
template <typename In, typename Out>
absl::Status ReadLimit(In value, In high, std::string_view field, Out* out) {
  if (value == 0) return absl::OkStatus();
  if (value < 1 || value > high) {
    return InvalidField(field, StrCat("must be 1 to ", high, ", got ", value));
  }
  *out = static_cast<Out>(value);
  return absl::OkStatus();
}

absl::Status ReadHistory(const proto::AskRequest& request, agent::AskRequest* out) {
  if (request.history_size() > kMaxHistoryTurns) {
    return InvalidField("history",
                        StrCat("at most ", kMaxHistoryTurns, ", got ", request.history_size()));
  }
  if (request.history_size() > 0 && (request.new_session() || !request.session_id().empty())) {
    return InvalidField("history", "cannot be given together with a session");
  }
  for (int i = 0; i < request.history_size(); ++i) {
    const auto& turn = request.history(i);
    const std::string field = StrCat("history[", i, "]");
    agent::Message message;
    if (turn.role() != "user" && turn.role() != "assistant") {
      return InvalidField(field + ".role", "must be \"user\" or \"assistant\"");
    }
    if (!IsValidUtf8(turn.content())) return InvalidField(field + ".content", "must be UTF-8");
    message.role =
        turn.role() == "user" ? agent::Message::Role::kUser : agent::Message::Role::kAssistant;
    message.content = turn.content();
    out->history.push_back(std::move(message));
  }
  return absl::OkStatus();
}

void WriteSource(const agent::Source& source, proto::Source* out) {
  out->set_number(source.number);
  if (!source.chunk_ids.empty()) out->set_chunk_id(source.chunk_ids[0]);
  out->set_document_id(source.document_id);
  out->set_version(source.version);
  out->set_title(source.title);
  for (const std::string& heading : source.heading_path) out->add_heading_path(heading);
  out->mutable_span()->set_begin(source.span_begin);
  out->mutable_span()->set_end(source.span_end);
  out->set_score(source.score);
}

void WriteCitation(const agent::Citation& citation, proto::Citation* out) {
  out->set_source_number(citation.source);
  out->set_chunk_id(citation.chunk_id);
  out->set_document_id(citation.document_id);
  out->set_version(citation.version);
  out->mutable_span()->set_begin(citation.span_begin);
  out->mutable_span()->set_end(citation.span_end);
  out->set_quote(citation.quote);
  out->set_text(citation.text);
  out->set_score(citation.score);
}

// For people; the word in front is stable.
std::string Problem(const agent::SupportIssue& issue) {
  return issue.detail.empty() ? issue.reason : StrCat(issue.reason, ": ", issue.detail);
}

proto::RunStatus ToProto(agent::RunStatus status) {
  switch (status) {
    case agent::RunStatus::kRunning:
      return proto::RUN_STATUS_RUNNING;
    case agent::RunStatus::kCompleted:
      return proto::RUN_STATUS_COMPLETED;
    case agent::RunStatus::kGaveUp:
      return proto::RUN_STATUS_GAVE_UP;
    case agent::RunStatus::kLimit:
      return proto::RUN_STATUS_LIMIT;
    case agent::RunStatus::kFailed:
      return proto::RUN_STATUS_FAILED;
    case agent::RunStatus::kCancelled:
      return proto::RUN_STATUS_CANCELLED;
  }
  return proto::RUN_STATUS_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<agent::AskRequest> ReadAskRequest(const proto::AskRequest& request) {
  agent::AskRequest out;
  CAIRN_ASSIGN_OR_RETURN(out.collection, ReadCollection(request.collection()));
  CAIRN_RETURN_IF_ERROR(CheckText(request.question(), "question"));
  out.question = request.question();
  if (request.session_id().size() > kMaxSessionIdBytes) {
    return InvalidField("session_id", StrCat("at most ", kMaxSessionIdBytes, " bytes"));
  }
  if (request.new_session() && !request.session_id().empty()) {
    return InvalidField("new_session", "cannot be given together with session_id");
  }
  out.session_id = request.session_id();
  out.new_session = request.new_session();
  CAIRN_RETURN_IF_ERROR(ReadHistory(request, &out));
  CAIRN_RETURN_IF_ERROR(ReadLimit(request.top_k(), kMaxTopK, "top_k", &out.top_k));
  CAIRN_RETURN_IF_ERROR(
      ReadLimit(request.max_tokens(), kMaxAnswerTokens, "max_tokens", &out.max_tokens));
  CAIRN_RETURN_IF_ERROR(ReadFilter(request.filter()).status());
  if (!proto::SupportPolicy_IsValid(request.policy())) {
    return InvalidField("policy", StrCat("unknown value ", static_cast<int>(request.policy())));
  }
  out.strict = request.policy() == proto::SUPPORT_POLICY_STRICT;
  if (!(request.temperature() >= 0 && request.temperature() <= 2)) {
    return InvalidField("temperature", StrCat("must be 0 to 2, got ", request.temperature()));
  }
  out.temperature = request.temperature();
  out.seed = request.seed();
  return out;
}

absl::StatusOr<agent::RunRequest> ReadRunRequest(const proto::RunRequest& request) {
  agent::RunRequest out;
  CAIRN_RETURN_IF_ERROR(CheckText(request.task(), "task"));
  out.task = request.task();
  CAIRN_ASSIGN_OR_RETURN(out.collection, ReadCollection(request.collection()));
  const proto::RunLimits& limits = request.limits();
  CAIRN_RETURN_IF_ERROR(
      ReadLimit(limits.max_turns(), kMaxRunTurns, "limits.max_turns", &out.limits.max_turns));
  CAIRN_RETURN_IF_ERROR(ReadLimit(limits.max_tool_calls(), kMaxRunToolCalls,
                                  "limits.max_tool_calls", &out.limits.max_tool_calls));
  CAIRN_RETURN_IF_ERROR(ReadLimit(int64_t{limits.max_tokens()}, kMaxRunTokens, "limits.max_tokens",
                                  &out.limits.max_tokens));
  if (limits.has_max_time()) {
    const absl::Duration time =
        absl::Seconds(limits.max_time().seconds()) + absl::Nanoseconds(limits.max_time().nanos());
    if (time <= absl::ZeroDuration() || time > kMaxRunTime) {
      return InvalidField("limits.max_time", "must be above 0 and at most 24 hours");
    }
    out.limits.max_time = time;
  }
  return out;
}

void WriteSources(const std::vector<agent::Source>& sources, proto::AskSources* out) {
  for (const agent::Source& source : sources) WriteSource(source, out->add_sources());
}

void WriteSentence(const agent::AnswerSentence& sentence, proto::AskSentence* out) {
  out->set_index(sentence.index);
  out->mutable_answer_span()->set_begin(sentence.begin);
  out->mutable_answer_span()->set_end(sentence.end);
  for (const agent::Citation& citation : sentence.citations)
    WriteCitation(citation, out->add_citations());
  out->set_supported(sentence.supported);
  for (const agent::SupportIssue& issue : sentence.issues) out->add_problems(Problem(issue));
}

void WriteCompleted(const agent::AskResult& result, proto::AskCompleted* out) {
  out->set_answer(result.answer);
  for (const auto& sentence : result.sentences) WriteSentence(sentence, out->add_sentences());
  out->set_abstained(result.abstained);
  out->set_abstain_reason(result.abstain_reason);
  out->mutable_usage()->set_prompt_tokens(result.usage.prompt_tokens);
  out->mutable_usage()->set_completion_tokens(result.usage.completion_tokens);
  for (const auto& timing : result.timings) {
    auto* item = out->add_timings();
    item->set_stage(timing.stage);
    WriteDuration(timing.duration, item->mutable_duration());
  }
  for (const auto& left : result.left_out) WriteSource(left.source, out->add_left_out());
  out->set_session_id(result.session_id);
  out->set_search_query(result.standalone_question);
  for (const std::string& stage : result.degraded) out->add_degraded(stage);
}

void WriteTurn(const agent::SessionTurn& turn, proto::GetSessionResponse* out) {
  auto* question = out->add_messages();
  question->set_role("user");
  question->set_content(turn.question);
  WriteTime(turn.time, question->mutable_created_at());
  auto* answer = out->add_messages();
  answer->set_role("assistant");
  answer->set_content(turn.answer);
  for (const auto& sentence : turn.sentences) WriteSentence(sentence, answer->add_sentences());
  WriteTime(turn.time, answer->mutable_created_at());
}

bool RunStepWriter::Write(const agent::RunEvent& event, proto::RunStep* out) {
  if (const auto* output = std::get_if<agent::ModelOutput>(&event)) {
    auto* turn = out->mutable_model_turn();
    turn->set_text(SanitizeUtf8(output->text));
    turn->mutable_usage()->set_prompt_tokens(output->prompt_tokens);
    turn->mutable_usage()->set_completion_tokens(output->completion_tokens);
  } else if (const auto* call = std::get_if<agent::ToolCall>(&event)) {
    auto* item = out->mutable_tool_call();
    item->set_call_id(call->call_id);
    item->set_tool(SanitizeUtf8(call->name));
    item->set_arguments_json(SanitizeUtf8(call->arguments_json));
  } else if (const auto* result = std::get_if<agent::ToolResult>(&event)) {
    auto* item = out->mutable_tool_result();
    item->set_call_id(result->call_id);
    item->set_content(SanitizeUtf8(result->text));
    item->set_is_error(!result->ok);
  } else if (const auto* refused = std::get_if<agent::Refused>(&event)) {
    auto* item = out->mutable_refusal();
    item->set_tool(SanitizeUtf8(refused->name));
    item->set_reason(SanitizeUtf8(StrCat(refused->reason, ": ", refused->message)));
  } else {
    return false;
  }
  out->set_index(next_index_++);
  return true;
}

void WriteRunFinal(const agent::RunFinal& final, proto::RunCompleted* out) {
  out->set_status(ToProto(final.status));
  out->set_answer(SanitizeUtf8(final.answer));
  out->set_missing(SanitizeUtf8(final.missing.empty() ? final.detail : final.missing));
  out->mutable_usage()->set_prompt_tokens(final.usage.prompt_tokens);
  out->mutable_usage()->set_completion_tokens(final.usage.completion_tokens);
  out->set_turns(final.usage.turns);
  out->set_tool_calls(final.usage.tool_calls);
}

void WriteRunSummary(const agent::RunInfo& info, proto::RunSummary* out) {
  out->set_run_id(info.id);
  out->set_task(info.task);
  out->set_status(ToProto(info.final.status));
  WriteTime(info.created, out->mutable_started_at());
  if (info.final.status != agent::RunStatus::kRunning)
    WriteTime(info.updated, out->mutable_finished_at());
}

}  // namespace cairn::services
