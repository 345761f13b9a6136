#include "agent/run/agent_loop.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "agent/run/action.h"
#include "agent/run/builtin_tools.h"
#include "agent/run/run_store.h"
#include "agent/run/tool_registry.h"
#include "agent/schema/json_text.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

constexpr size_t kMaxTaskBytes = 8192;
constexpr size_t kMaxToolResultBytes = 6000;  // what the model sees of one result
constexpr size_t kMaxAssistantBytes =
    4000;  // of its own earlier words: a huge bad call would fill the window
constexpr size_t kMaxEchoBytes = 300;  // of an earlier result, in a refusal
constexpr size_t kMaxNameEcho = 64;
constexpr int kMaxCallsPerTurn = 8;  // the model is told about the rest
constexpr int kMaxAttempts = 2;      // of one identical call, when the first failed
constexpr int kTemplateTokens = 32;  // around the messages, not seen by CountTokens
constexpr int kMinTurnTokens = 16;   // a turn with less room than this is not started

constexpr std::string_view kSystem =
    "You work on a task with tools. Look facts up with search, and calculate with calculator: "
    "never guess. One step at "
    "a time: call a tool, read its result, then decide. When you know the answer, write it in "
    "plain text, without a tool "
    "call. If the documents do not hold it, call give_up.";
constexpr std::string_view kLastTurn =
    "This was the last tool call. Write your answer now in plain text, from what you know. Say "
    "what is missing.";

std::string Cut(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  return StrCat(text.substr(0, Utf8Floor(text, max_bytes)), "... (cut)");
}

// The canonical form of a call: equal calls have equal keys.
std::string CallKey(const ProposedCall& call) {
  return StrCat(call.name, "\n", call.arguments_json);
}

class RunInProgress {
 public:
  RunInProgress(Model* model, RunStore* store, const ToolRegistry& tools,
                const RequestContext& context, const RunRequest& request, std::string run_id,
                const RunEventCallback& on_event)
      : model_(model),
        store_(store),
        tools_(tools),
        outer_(context),
        context_(context.WithTimeout(request.limits.max_time)),
        // The end of a cancelled or late run is written all the same.
        store_context_(CancelSource(), absl::InfiniteFuture(), context.identity()),
        request_(request),
        run_id_(std::move(run_id)),
        on_event_(on_event) {}

  absl::StatusOr<RunFinal> Run() {
    messages_ = {{Message::Role::kSystem, std::string(kSystem)},
                 {Message::Role::kUser, request_.task}};
    while (!final_) {
      CAIRN_RETURN_IF_ERROR(Turn());
    }
    final_->usage = usage_;
    final_->usage.elapsed = absl::Now() - start_;
    CAIRN_RETURN_IF_ERROR(store_->Append(store_context_, run_id_, *final_));
    if (listening_) on_event_(run_id_, *final_);
    return *final_;
  }

 private:
  struct Earlier {
    int attempts = 0;
    bool ok = false;
    std::string result;
  };

  void End(RunStatus status, std::string answer, std::string missing, std::string detail) {
    final_ = RunFinal{status, std::move(answer), std::move(missing), std::move(detail), {}};
  }

  void Limit(std::string detail) {
    std::string missing = StrCat("the run was stopped before it was done: ", detail);
    End(RunStatus::kLimit, best_text_, std::move(missing), std::move(detail));
  }

  // Ends the run when it was cancelled or its time is up. Checked before every step.
  bool Stopped() {
    if (final_) return true;
    const absl::Status status = context_.Check();
    if (status.ok()) return false;
    if (outer_.cancelled() || absl::IsCancelled(status)) {
      End(RunStatus::kCancelled, best_text_, "the run was cancelled", "cancelled");
    } else {
      Limit(StrCat("max_time ", absl::FormatDuration(request_.limits.max_time)));
    }
    return true;
  }

  // Written first, then streamed.
  absl::Status Emit(RunEvent event) {
    CAIRN_RETURN_IF_ERROR(store_->Append(store_context_, run_id_, event));
    if (listening_ && !on_event_(run_id_, event)) {
      listening_ = false;
      End(RunStatus::kCancelled, best_text_, "the run was cancelled",
          "the receiver of the events stopped it");
    }
    return absl::OkStatus();
  }

  int tokens_used() const { return usage_.prompt_tokens + usage_.completion_tokens; }

  absl::Status Turn() {
    if (Stopped()) return absl::OkStatus();
    const RunLimits& limits = request_.limits;
    if (usage_.turns >= limits.max_turns) {
      Limit(StrCat("max_turns ", limits.max_turns));
      return absl::OkStatus();
    }
    // The last turn is for an answer: a tool result after it would never be read.
    const bool last =
        usage_.turns + 1 == limits.max_turns || usage_.tool_calls >= limits.max_tool_calls;
    if (last && usage_.turns > 0)
      messages_.push_back({Message::Role::kUser, std::string(kLastTurn)});
    ModelRequest generation;
    generation.tools_json = last && usage_.turns > 0 ? "" : tools_.tools_json();
    generation.temperature = request_.temperature;
    generation.seed = request_.seed;
    CAIRN_RETURN_IF_ERROR(FitTokens(&generation));
    if (final_) return absl::OkStatus();

    CAIRN_RETURN_IF_ERROR(Emit(StepStarted{usage_.turns}));
    ++usage_.turns;
    if (Stopped()) return absl::OkStatus();
    absl::StatusOr<ModelReply> reply = model_->Generate(
        context_, generation, [&](std::string_view) { return context_.Check().ok(); });
    if (!reply.ok()) {
      if (!Stopped())
        End(RunStatus::kFailed, best_text_, "the model failed",
            std::string(reply.status().message()));
      return absl::OkStatus();
    }
    usage_.prompt_tokens += reply->prompt_tokens;
    usage_.completion_tokens += reply->completion_tokens;
    CAIRN_RETURN_IF_ERROR(
        Emit(ModelOutput{reply->text, reply->prompt_tokens, reply->completion_tokens}));
    messages_.push_back({Message::Role::kAssistant, Cut(reply->text, kMaxAssistantBytes)});
    if (Stopped()) return absl::OkStatus();
    return Act(*reply, last);
  }

  // Sets the turn's messages and max_tokens, or ends the run when a token limit leaves no room.
  absl::Status FitTokens(ModelRequest* generation) {
    absl::StatusOr<int> window = model_->ContextWindow(context_);
    absl::StatusOr<int> prompt = window.ok() ? CountPrompt(*generation) : window;
    // Old results make room for new ones; a message is never dropped, so that every call keeps its
    // result.
    for (size_t i = 0;
         prompt.ok() && *prompt + kMinTurnTokens > *window && i + 2 < messages_.size(); ++i) {
      if (messages_[i].role != Message::Role::kTool) continue;
      messages_[i].content = "(left out to make room)";
      prompt = CountPrompt(*generation);
    }
    if (!prompt.ok()) {
      if (!Stopped())
        End(RunStatus::kFailed, best_text_, "the model failed",
            std::string(prompt.status().message()));
      return absl::OkStatus();
    }
    const int left = request_.limits.max_tokens - tokens_used() - *prompt;
    const int room = std::min({request_.limits.max_tokens_per_turn, left, *window - *prompt});
    if (left < kMinTurnTokens) {
      Limit(StrCat("max_tokens ", request_.limits.max_tokens));
    } else if (room < kMinTurnTokens) {
      Limit(StrCat("the context window of ", *window, " tokens"));
    }
    generation->max_tokens = room;
    generation->messages = messages_;
    return absl::OkStatus();
  }

  absl::StatusOr<int> CountPrompt(const ModelRequest& generation) {
    std::string all = generation.tools_json;
    for (const Message& message : messages_) StrAppend(&all, "\n", message.content);
    CAIRN_ASSIGN_OR_RETURN(const int tokens, model_->CountTokens(context_, all));
    return tokens + kTemplateTokens + 4 * static_cast<int>(messages_.size());
  }

  absl::Status Act(const ModelReply& reply, bool last) {
    const Action action = ParseAction(reply.text);
    if (!action.text.empty()) best_text_ = action.text;
    if (action.calls.empty()) {
      if (action.text.empty())
        return Refuse(
            {"EMPTY_OUTPUT", "", "", "You wrote nothing. Call a tool, or write the answer."});
      End(RunStatus::kCompleted, action.text,
          reply.truncated ? "the answer was cut at the token limit of a turn" : "", "");
      return absl::OkStatus();
    }
    for (size_t i = 0; i < action.calls.size(); ++i) {
      if (Stopped()) return absl::OkStatus();
      const std::string call_id = StrCat("c", ++num_calls_);
      ProposedCall call = action.calls[i];
      call.truncated &= reply.truncated;
      if (last && call.name != kGiveUp) {
        Limit(usage_.tool_calls >= request_.limits.max_tool_calls
                  ? StrCat("max_tool_calls ", request_.limits.max_tool_calls)
                  : StrCat("max_turns ", request_.limits.max_turns));
        return absl::OkStatus();
      }
      if (i >= static_cast<size_t>(kMaxCallsPerTurn)) {
        CAIRN_RETURN_IF_ERROR(
            Refuse({"TOO_MANY_CALLS", call_id, Cut(call.name, kMaxNameEcho),
                    StrCat("Not called: at most ", kMaxCallsPerTurn, " calls at a time.")}));
        continue;
      }
      CAIRN_RETURN_IF_ERROR(Carry(call, call_id));
    }
    return absl::OkStatus();
  }

  // One proposed call: refused, or made.
  absl::Status Carry(const ProposedCall& call, const std::string& call_id) {
    const std::string name = Cut(call.name, kMaxNameEcho);
    if (!call.problem.empty()) {
      const std::string hint = call.truncated ? " It was cut off: write a shorter call."
                                              : " Write {\"name\": ..., \"arguments\": {...}}.";
      return Refuse({call.truncated ? "TRUNCATED_CALL" : "MALFORMED_CALL", call_id, name,
                     call.problem + hint});
    }
    if (!tools_.Knows(call.name)) {
      return Refuse({"UNKNOWN_TOOL", call_id, name,
                     StrCat("There is no tool \"", name, "\". The tools are: ", tools_.names(),
                            ". To give the answer, write plain text.")});
    }
    absl::StatusOr<std::string> violations = tools_.Validate(call.name, call.arguments_json);
    if (!violations.ok()) violations = std::string(violations.status().message());
    if (!violations->empty()) {
      return Refuse({"INVALID_ARGUMENTS", call_id, name,
                     StrCat("The arguments of ", name, " are not valid:\n", *violations,
                            "\nCorrect them and call again.")});
    }
    if (call.name == kGiveUp) return GiveUp(call, call_id);
    Earlier& earlier = earlier_[CallKey(call)];
    if (earlier.ok || earlier.attempts >= kMaxAttempts) {
      return Refuse(
          {"REPEATED_CALL", call_id, name,
           StrCat("You made this call before. Its result was: ", Cut(earlier.result, kMaxEchoBytes),
                  "\nDo not repeat it: use the result, change the arguments, answer, or call "
                  "give_up.")});
    }
    if (usage_.tool_calls >= request_.limits.max_tool_calls) {
      return Refuse({"LIMIT_REACHED", call_id, name,
                     "Not called: no tool calls are left. Write the answer now."});
    }
    return Call(call, call_id, &earlier);
  }

  absl::Status GiveUp(const ProposedCall& call, const std::string& call_id) {
    CAIRN_RETURN_IF_ERROR(Emit(ToolCall{call_id, call.name, call.arguments_json}));
    if (final_) return absl::OkStatus();
    const absl::StatusOr<Json> arguments = ParseJson(call.arguments_json);
    CAIRN_RETURN_IF_ERROR(arguments.status());
    std::string answer = arguments->value("answer", std::string());
    End(RunStatus::kGaveUp, answer.empty() ? best_text_ : std::move(answer),
        arguments->value("missing", std::string()), "");
    return absl::OkStatus();
  }

  absl::Status Call(const ProposedCall& call, const std::string& call_id, Earlier* earlier) {
    CAIRN_RETURN_IF_ERROR(Emit(ToolCall{call_id, call.name, call.arguments_json}));
    if (Stopped()) return absl::OkStatus();
    ++usage_.tool_calls;
    ++earlier->attempts;
    Tool* const tool = tools_.Find(call.name);
    const absl::StatusOr<std::string> result =
        tool->Call(context_.WithTimeout(tool->timeout()), call.arguments_json);
    ToolResult observed{call_id, call.name, result.ok(), {}};
    if (result.ok()) {
      observed.text = Cut(SanitizeUtf8(*result), kMaxToolResultBytes);
      // The same passages again are no news, and cost tokens.
      const auto [it, added] = results_.emplace(observed.text, call_id);
      if (!added)
        observed.text = StrCat("The same result as that of call ", it->second, ". ",
                               Cut(observed.text, kMaxEchoBytes));
      errors_ = 0;
    } else {
      observed.text =
          StrCat("Error: ", Cut(SanitizeUtf8(ToStd(result.status().message())), kMaxEchoBytes));
      if (earlier->attempts < kMaxAttempts && !absl::IsInvalidArgument(result.status()) &&
          !absl::IsNotFound(result.status())) {
        observed.text += " You may try once more.";
      }
      ++errors_;
    }
    earlier->ok = result.ok();
    earlier->result = observed.text;
    messages_.push_back({Message::Role::kTool, observed.text});
    CAIRN_RETURN_IF_ERROR(Emit(std::move(observed)));
    CheckErrors();
    return absl::OkStatus();
  }

  absl::Status Refuse(Refused refused) {
    // A call gets its answer as a tool result; text that held no call is answered by the user.
    messages_.push_back(
        {refused.call_id.empty() ? Message::Role::kUser : Message::Role::kTool, refused.message});
    CAIRN_RETURN_IF_ERROR(Emit(std::move(refused)));
    ++errors_;
    CheckErrors();
    return absl::OkStatus();
  }

  void CheckErrors() {
    if (!final_ && errors_ >= request_.limits.max_consecutive_errors) {
      Limit(StrCat("max_consecutive_errors ", request_.limits.max_consecutive_errors));
    }
  }

  Model* const model_;
  RunStore* const store_;
  const ToolRegistry& tools_;
  const RequestContext& outer_;
  const RequestContext context_;
  const RequestContext store_context_;
  const RunRequest& request_;
  const std::string run_id_;
  const RunEventCallback& on_event_;
  const absl::Time start_ = absl::Now();

  std::vector<Message> messages_;
  RunUsage usage_;
  std::optional<RunFinal> final_;
  bool listening_ = true;
  std::string best_text_;  // the last plain text that the model wrote
  int num_calls_ = 0;      // proposed, for call ids
  int errors_ = 0;         // in a row
  std::map<std::string, Earlier> earlier_;
  std::map<std::string, std::string> results_;  // text of a result -> call id
};

class AgentLoopImpl : public AgentLoop {
 public:
  AgentLoopImpl(Model* model, Retriever* retriever, RunStore* store, std::vector<Tool*> extra_tools)
      : model_(model), retriever_(retriever), store_(store), extra_tools_(std::move(extra_tools)) {}

  absl::StatusOr<Outcome> Run(const RequestContext& context, const RunRequest& request,
                              const RunEventCallback& on_event) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    CAIRN_RETURN_IF_ERROR(ValidateRequest(request));
    const std::vector<std::unique_ptr<Tool>> builtin = BuiltinTools(retriever_, request.collection);
    CAIRN_ASSIGN_OR_RETURN(const ToolRegistry tools, Registry(builtin));
    Outcome outcome;
    CAIRN_ASSIGN_OR_RETURN(outcome.run_id, store_->Create(context, request));
    CAIRN_ASSIGN_OR_RETURN(
        outcome.final,
        RunInProgress(model_, store_, tools, context, request, outcome.run_id, on_event).Run());
    return outcome;
  }

  absl::StatusOr<ToolRegistry> Registry(const std::vector<std::unique_ptr<Tool>>& builtin) const {
    std::vector<Tool*> tools;
    for (const auto& tool : builtin) tools.push_back(tool.get());
    tools.insert(tools.end(), extra_tools_.begin(), extra_tools_.end());
    return ToolRegistry::Create(tools);
  }

 private:
  static absl::Status ValidateRequest(const RunRequest& request) {
    if (request.task.find_first_not_of(" \t\r\n") == std::string::npos)
      return InvalidField("task", "must not be blank");
    if (request.task.size() > kMaxTaskBytes) {
      return InvalidField(
          "task", StrCat("has ", request.task.size(), " bytes, the limit is ", kMaxTaskBytes));
    }
    if (!IsValidUtf8(request.task)) return InvalidField("task", "must be UTF-8 text");
    if (request.collection.empty()) return InvalidField("collection", "must not be empty");
    if (!(request.temperature >= 0 && request.temperature <= 2))
      return InvalidField("temperature", "must be 0 to 2");
    const RunLimits& limits = request.limits;
    if (limits.max_turns < 1 || limits.max_turns > 100)
      return InvalidField("limits.max_turns", "must be 1 to 100");
    if (limits.max_tool_calls < 0 || limits.max_tool_calls > 200) {
      return InvalidField("limits.max_tool_calls", "must be 0 to 200");
    }
    if (limits.max_tokens < 1) return InvalidField("limits.max_tokens", "must be positive");
    if (limits.max_tokens_per_turn < kMinTurnTokens) {
      return InvalidField("limits.max_tokens_per_turn",
                          StrCat("must be at least ", kMinTurnTokens));
    }
    if (limits.max_consecutive_errors < 1)
      return InvalidField("limits.max_consecutive_errors", "must be positive");
    if (limits.max_time <= absl::ZeroDuration())
      return InvalidField("limits.max_time", "must be positive");
    return absl::OkStatus();
  }

  Model* const model_;
  Retriever* const retriever_;
  RunStore* const store_;
  const std::vector<Tool*> extra_tools_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentLoop>> AgentLoop::Create(Model* model, Retriever* retriever,
                                                             RunStore* store,
                                                             std::vector<Tool*> extra_tools) {
  auto loop = std::make_unique<AgentLoopImpl>(model, retriever, store, std::move(extra_tools));
  // Finds a bad tool now rather than at the first run.
  CAIRN_RETURN_IF_ERROR(loop->Registry(BuiltinTools(retriever, "")).status());
  return loop;
}

}  // namespace cairn::agent
