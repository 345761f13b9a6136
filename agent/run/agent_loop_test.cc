#include "agent/run/agent_loop.h"

#include <filesystem>

#include "absl/time/clock.h"
#include "agent/run/action.h"
#include "agent/run/run_store.h"
#include "agent/testing/fakes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string Call(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments +
         "}\n</tool_call>";
}

TEST(ActionTest, ReadsCallsInEveryFormThatModelsWrite) {
  const std::string object = R"({"name": "search", "arguments": {"query": "a } b"}})";
  const std::string outputs[] = {
      "<tool_call>\n" + object + "\n</tool_call>",
      "<tool_call>" + object,  // no closing tag
      "<tool_call>```json\n" + object + "\n```</tool_call>",
      "```json\n" + object + "\n```",
      "```\n" + object + "\n```",
      object,
      "  \n" + object + "  ",
      R"({"name": "search", "parameters": {"query": "a } b"}})",
      R"({"name": "search", "arguments": "{\"query\": \"a } b\"}"})",
  };
  for (const std::string& output : outputs) {
    const Action action = ParseAction(output);
    ASSERT_THAT(action.calls, SizeIs(1)) << output;
    EXPECT_EQ(action.calls[0].problem, "") << output;
    EXPECT_EQ(action.calls[0].name, "search") << output;
    EXPECT_EQ(action.calls[0].arguments_json, R"({"query":"a } b"})") << output;
    EXPECT_EQ(action.text, "") << output;
  }
}

TEST(ActionTest, SeveralCallsKeepTheirOrderAndTheTextAround) {
  const Action action =
      ParseAction("I look. " + Call("a", "{}") + " and " + Call("b", R"({"x": 1})") + " done");
  ASSERT_THAT(action.calls, SizeIs(2));
  EXPECT_EQ(action.calls[0].name, "a");
  EXPECT_EQ(action.calls[1].name, "b");
  EXPECT_EQ(action.text, "I look.\nand\ndone");
  const Action bare = ParseAction(R"({"name": "a", "arguments": {}}
{"name": "b", "arguments": {}})");
  EXPECT_THAT(bare.calls, SizeIs(2));
}

TEST(ActionTest, TextIsText) {
  for (const char* text : {"The answer is 42.", "{\"a\": 1}", "```cpp\nint x;\n```",
                           "Use {\"name\"} here", "", "[]"}) {
    const Action action = ParseAction(text);
    EXPECT_THAT(action.calls, IsEmpty()) << text;
    EXPECT_EQ(action.text, text);
  }
}

TEST(ActionTest, NoArgumentsAreAnEmptyObjectAndMalformedOnesAreNot) {
  for (const char* output :
       {R"({"name": "x", "arguments": ""})", R"({"name": "x", "arguments": {}})"}) {
    const Action action = ParseAction(output);
    ASSERT_THAT(action.calls, SizeIs(1));
    EXPECT_EQ(action.calls[0].problem, "");
    EXPECT_EQ(action.calls[0].arguments_json, "{}");
  }
  const std::pair<std::string, const char*> malformed[] = {
      {R"(<tool_call>{"name": "x", "arguments": {"query": "a"</tool_call>)", "not valid JSON"},
      {R"(<tool_call>{"name": "x", "arguments": {query: 1}}</tool_call>)", "not valid JSON"},
      {R"(<tool_call>{'name': 'x', 'arguments': {}}</tool_call>)", "not valid JSON"},
      {R"(<tool_call>{"name": "x", "arguments": []}</tool_call>)", "not array"},
      {R"(<tool_call>{"name": "x", "arguments": null}</tool_call>)", "not null"},
      {R"(<tool_call>{"name": "x", "arguments": 7}</tool_call>)", "not number"},
      {R"(<tool_call>{"name": "x", "arguments": "\"y\""}</tool_call>)", "not string"},
      {R"(<tool_call>{"name": "x", "arguments": "{broken"}</tool_call>)", "\"arguments\""},
      {R"(<tool_call>{"name": "x", "arguments": {"a": 1, "a": 2}}</tool_call>)", "duplicate key"},
      {R"(<tool_call>{"arguments": {}}</tool_call>)", "\"name\""},
      {R"(<tool_call>{"name": 5, "arguments": {}}</tool_call>)", "\"name\""},
      {R"(<tool_call>["x"]</tool_call>)", "must be an object"},
      {"<tool_call>search(query)</tool_call>", "not valid JSON"},
      {"<tool_call></tool_call>", "not valid JSON"},
      {"<tool_call>", "not valid JSON"},
      {R"({"name": "x", "arguments": {"query": "never closed)", "not valid JSON"},
      {"<tool_call>" + std::string(200000, '[') + "</tool_call>", "bytes"},
      {"<tool_call>" + std::string(5000, '[') + "</tool_call>", "not valid JSON"},
  };
  for (const auto& [output, expected] : malformed) {
    const Action action = ParseAction(output);
    ASSERT_THAT(action.calls, SizeIs(1)) << output.substr(0, 80);
    EXPECT_THAT(action.calls[0].problem, HasSubstr(expected)) << output.substr(0, 80);
    EXPECT_THAT(action.calls[0].arguments_json, IsEmpty()) << output.substr(0, 80);
    EXPECT_LT(action.calls[0].problem.size(), 300u) << "a bad payload must not be echoed at length";
  }
}

class FakeTool : public Tool {
 public:
  std::string_view name() const override { return name_; }
  std::string_view description() const override { return "for tests"; }
  std::string_view parameters_schema() const override { return schema; }
  absl::Duration timeout() const override { return absl::Seconds(1); }
  absl::StatusOr<std::string> Call(const RequestContext& context,
                                   std::string_view arguments) override {
    calls.emplace_back(arguments);
    if (during) during(context);
    return result;
  }
  std::string name_ = "probe";
  std::string schema =
      R"({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false})";
  absl::StatusOr<std::string> result = std::string("probed");
  std::function<void(const RequestContext&)> during;
  std::vector<std::string> calls;
};

class AgentLoopTest : public ::testing::Test {
 protected:
  AgentLoopTest() {
    dir_ = ::testing::TempDir() + "/agent_loop_test";
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    store_ = *RunStore::Open(dir_ + "/runs.db");
    request_.task = "How many milliseconds is the default timeout?";
    request_.collection = "docs";
    retriever_.passages = {PlainPassage("client.md", 0, "The default timeout is 500 ms.")};
  }

  RunFinal Run(std::vector<std::string> replies,
               const RequestContext& context = RequestContext::Background()) {
    model_.replies = std::move(replies);
    model_.requests.clear();
    events_.clear();
    auto loop = AgentLoop::Create(&model_, &retriever_, store_.get(), {&probe_});
    EXPECT_TRUE(loop.ok()) << loop.status();
    auto outcome =
        (*loop)->Run(context, request_, [&](std::string_view run_id, const RunEvent& event) {
          // What is streamed is on disk already.
          const auto record = store_->Get(RequestContext::Background(), run_id);
          EXPECT_TRUE(record.ok()) << record.status();
          events_.push_back(event);
          EXPECT_EQ(record->events.size(), events_.size());
          EXPECT_EQ(record->events.back().index(), event.index());
          return on_event_ ? on_event_(event) : true;
        });
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return {};
    run_id_ = outcome->run_id;
    const auto record = store_->Get(RequestContext::Background(), run_id_);
    EXPECT_EQ(record->info.final.status, outcome->final.status);
    EXPECT_EQ(record->info.final.answer, outcome->final.answer);
    EXPECT_TRUE(std::holds_alternative<RunFinal>(record->events.back()));
    return outcome->final;
  }

  template <typename Event>
  std::vector<Event> Of() const {
    std::vector<Event> out;
    for (const RunEvent& event : events_) {
      if (const auto* e = std::get_if<Event>(&event)) out.push_back(*e);
    }
    return out;
  }

  std::vector<std::string> Refusals() const {
    std::vector<std::string> reasons;
    for (const Refused& r : Of<Refused>()) reasons.push_back(r.reason);
    return reasons;
  }

  std::string LastMessage(size_t turn) const {
    return model_.requests[turn].messages.back().content;
  }

  std::string dir_, run_id_;
  ScriptedModel model_;
  FakeRetriever retriever_;
  std::unique_ptr<RunStore> store_;
  FakeTool probe_;
  RunRequest request_;
  std::vector<RunEvent> events_;
  std::function<bool(const RunEvent&)> on_event_;
};

TEST_F(AgentLoopTest, SearchesCalculatesAndAnswers) {
  const RunFinal final = Run({Call("search", R"({"query": "default timeout"})"),
                              Call("fetch_chunk", R"({"chunk_id": "client.md#0"})"),
                              Call("calculator", R"({"expression": "500 * 2"})"),
                              "Twice the default timeout is 1000 ms."});
  EXPECT_EQ(final.status, RunStatus::kCompleted);
  EXPECT_EQ(final.answer, "Twice the default timeout is 1000 ms.");
  EXPECT_EQ(final.usage.turns, 4);
  EXPECT_EQ(final.usage.tool_calls, 3);
  EXPECT_GT(final.usage.prompt_tokens, 0);
  const auto results = Of<ToolResult>();
  ASSERT_THAT(results, SizeIs(3));
  EXPECT_THAT(results[0].text, AllOf(HasSubstr("chunk_id: client.md#0"), HasSubstr("500 ms")));
  EXPECT_EQ(results[2].text, "1000");
  EXPECT_THAT(model_.requests[0].tools_json,
              AllOf(HasSubstr("\"search\""), HasSubstr("give_up"), HasSubstr("probe")));
  EXPECT_EQ(model_.requests[3].messages.back().role, Message::Role::kTool);
  EXPECT_EQ(retriever_.searches[0].collection, "docs");
}

TEST_F(AgentLoopTest, GiveUpReturnsTheBestSoFarAndWhatIsMissing) {
  RunFinal final = Run({Call("give_up", R"({"answer": "About 500.", "missing": "the unit"})")});
  EXPECT_EQ(final.status, RunStatus::kGaveUp);
  EXPECT_EQ(final.answer, "About 500.");
  EXPECT_EQ(final.missing, "the unit");
  final = Run(
      {"I think it is 500. " + Call("probe", "{}"), Call("give_up", R"({"missing": "proof"})")});
  EXPECT_EQ(final.answer, "I think it is 500.");
}

TEST_F(AgentLoopTest, RefusalsGoBackToTheModelAndNoToolRuns) {
  const struct {
    std::string output;
    const char* reason;
    const char* told;
  } cases[] = {
      {Call("web_search", R"({"q": "x"})"), "UNKNOWN_TOOL",
       "The tools are: search, fetch_chunk, calculator, probe, give_up"},
      {Call("final_answer", R"({"answer": "x"})"), "UNKNOWN_TOOL", "plain text"},
      {Call("search", R"({"querry": "x"})"), "INVALID_ARGUMENTS", "property \"query\" is missing"},
      {Call("search", R"({"query": "x", "top_k": "3"})"), "INVALID_ARGUMENTS",
       "/top_k: must be of type integer, not string"},
      {Call("search", R"({"query": "x", "top_k": 99})"), "INVALID_ARGUMENTS", "must be at most 10"},
      {Call("search", "{}"), "INVALID_ARGUMENTS", "missing"},
      {Call("probe", R"({"n": 1, "extra": 2})"), "INVALID_ARGUMENTS",
       "unexpected property \"extra\""},
      {Call("give_up", "{}"), "INVALID_ARGUMENTS", "\"missing\" is missing"},
      {Call("probe", "[]"), "MALFORMED_CALL", "must be an object, not array"},
      {Call("probe", "null"), "MALFORMED_CALL", "not null"},
      {Call("probe", "{broken"), "MALFORMED_CALL", "not valid JSON at byte"},
      {"", "EMPTY_OUTPUT", "You wrote nothing"},
      {" \n ", "EMPTY_OUTPUT", "You wrote nothing"},
  };
  for (const auto& c : cases) {
    const RunFinal final = Run({c.output, "Done."});
    EXPECT_EQ(final.status, RunStatus::kCompleted) << c.output;
    EXPECT_THAT(Refusals(), ElementsAre(c.reason)) << c.output;
    EXPECT_THAT(LastMessage(1), HasSubstr(c.told)) << c.output;
    EXPECT_EQ(final.usage.tool_calls, 0);
    EXPECT_THAT(probe_.calls, IsEmpty());
    EXPECT_THAT(Of<ToolCall>(), IsEmpty());
  }
}

TEST_F(AgentLoopTest, AHugeBadPayloadDoesNotGrowTheContext) {
  Run({Call("probe", "{\"n\": \"" + std::string(30000, 'x') + "\"}"),
       Call("probe", "{" + std::string(30000, 'y')), "Done."});
  EXPECT_LT(LastMessage(1).size(), 600u);
  EXPECT_LT(LastMessage(2).size(), 600u);
}

TEST_F(AgentLoopTest, ATruncatedCallIsNamed) {
  model_.truncated = true;
  Run({"<tool_call>{\"name\": \"probe\", \"arguments\": {\"n\": ", "Done."});
  EXPECT_THAT(Refusals(), ElementsAre("TRUNCATED_CALL"));
}

TEST_F(AgentLoopTest, AnIdenticalCallIsRefusedWithItsResult) {
  const std::string search = Call("search", R"({"query": "x", "top_k": 2})");
  const std::string same =
      R"({"name": "search", "arguments": {"top_k": 2, "query": "x"}})";  // other order, other form
  const RunFinal final = Run({search, same, "Done."});
  EXPECT_EQ(final.status, RunStatus::kCompleted);
  EXPECT_THAT(Refusals(), ElementsAre("REPEATED_CALL"));
  EXPECT_THAT(LastMessage(2), AllOf(HasSubstr("before"), HasSubstr("500 ms")));
  EXPECT_THAT(retriever_.searches, SizeIs(1));
}

TEST_F(AgentLoopTest, ALoopOfIdenticalCallsEnds) {
  model_.repeat_last = true;
  const RunFinal final = Run({Call("probe", R"({"n": 1})")});
  EXPECT_EQ(final.status, RunStatus::kLimit);
  EXPECT_THAT(final.detail, HasSubstr("max_consecutive_errors 3"));
  EXPECT_THAT(probe_.calls, SizeIs(1));
  EXPECT_EQ(final.usage.turns, 4);
}

TEST_F(AgentLoopTest, AnEmptySearchSaysThatItWorked) {
  retriever_.passages.clear();
  Run({Call("search", R"({"query": "x"})"), "Done."});
  EXPECT_THAT(LastMessage(1), HasSubstr("The search worked and found nothing"));
}

TEST_F(AgentLoopTest, TheSameResultOfAnotherCallIsShort) {
  probe_.result = std::string(2000, 'r');
  Run({Call("probe", R"({"n": 1})"), Call("probe", R"({"n": 2})"), "Done."});
  EXPECT_THAT(LastMessage(2), HasSubstr("The same result as that of call c1"));
  EXPECT_LT(LastMessage(2).size(), 500u);
}

TEST_F(AgentLoopTest, AFailingToolMayBeTriedOnceMore) {
  probe_.result = absl::UnavailableError("backend away");
  const std::string call = Call("probe", R"({"n": 1})");
  request_.limits.max_consecutive_errors = 10;
  const RunFinal final = Run({call, call, call, "It did not work."});
  EXPECT_EQ(final.status, RunStatus::kCompleted);
  EXPECT_THAT(probe_.calls, SizeIs(2));
  EXPECT_THAT(Refusals(), ElementsAre("REPEATED_CALL"));
  EXPECT_THAT(LastMessage(1), HasSubstr("backend away You may try once more."));
  EXPECT_FALSE(Of<ToolResult>()[0].ok);
}

TEST_F(AgentLoopTest, OneFailureOfABatchKeepsTheOtherResultsInOrder) {
  probe_.result = absl::InternalError("boom");
  const RunFinal final = Run({Call("probe", "{}") + Call("nothing", "{}") +
                                  Call("calculator", R"({"expression": "1+1"})") +
                                  Call("calculator", R"({"expression": "1/0"})"),
                              "Done."});
  EXPECT_EQ(final.status, RunStatus::kCompleted);
  const auto& messages = model_.requests[1].messages;
  ASSERT_THAT(messages, SizeIs(7));  // system, task, assistant, four results
  EXPECT_THAT(messages[3].content, HasSubstr("boom"));
  EXPECT_THAT(messages[4].content, HasSubstr("no tool \"nothing\""));
  EXPECT_EQ(messages[5].content, "2");
  EXPECT_THAT(messages[6].content, HasSubstr("division by zero"));
  for (size_t i = 3; i < 7; ++i) EXPECT_EQ(messages[i].role, Message::Role::kTool);
}

TEST_F(AgentLoopTest, CallsBeyondABatchAreAnsweredNotDropped) {
  std::string batch;
  for (int i = 0; i < 12; ++i) batch += Call("probe", StrCat("{\"n\": ", i, "}"));
  request_.limits.max_consecutive_errors = 10;
  Run({batch, "Done."});
  EXPECT_THAT(probe_.calls, SizeIs(8));
  EXPECT_THAT(Refusals(),
              ElementsAre("TOO_MANY_CALLS", "TOO_MANY_CALLS", "TOO_MANY_CALLS", "TOO_MANY_CALLS"));
}

TEST_F(AgentLoopTest, TheToolCallLimitHoldsInsideABatch) {
  request_.limits.max_tool_calls = 2;
  std::string batch;
  for (int i = 0; i < 4; ++i) batch += Call("probe", StrCat("{\"n\": ", i, "}"));
  RunFinal final = Run({batch, "What I know so far."});
  EXPECT_THAT(probe_.calls, SizeIs(2));
  EXPECT_THAT(Refusals(), ElementsAre("LIMIT_REACHED", "LIMIT_REACHED"));
  EXPECT_EQ(final.status, RunStatus::kCompleted);
  EXPECT_EQ(final.answer, "What I know so far.");
  EXPECT_EQ(model_.requests[1].tools_json, "");
  EXPECT_THAT(LastMessage(1), HasSubstr("Write your answer now"));
  // And a model that calls on all the same is stopped.
  final = Run({batch, "Half. " + Call("probe", R"({"n": 9})")});
  EXPECT_EQ(final.status, RunStatus::kLimit);
  EXPECT_EQ(final.detail, "max_tool_calls 2");
  EXPECT_EQ(final.answer, "Half.");
  EXPECT_THAT(final.missing, HasSubstr("stopped"));
}

TEST_F(AgentLoopTest, TheTurnLimitIsHard) {
  request_.limits.max_turns = 3;
  std::vector<std::string> replies;
  for (int i = 0; i < 10; ++i) replies.push_back(Call("probe", StrCat("{\"n\": ", i, "}")));
  const RunFinal final = Run(replies);
  EXPECT_EQ(final.status, RunStatus::kLimit);
  EXPECT_EQ(final.detail, "max_turns 3");
  EXPECT_THAT(model_.requests, SizeIs(3));
  EXPECT_THAT(probe_.calls, SizeIs(2));  // the last turn's result could not be read
}

TEST_F(AgentLoopTest, TheTokenLimitIsCheckedBeforeTheTurn) {
  Run({"Done."});
  const int one_turn = Of<ModelOutput>()[0].prompt_tokens + Of<ModelOutput>()[0].completion_tokens;
  for (const int limit : {1, one_turn, 3 * one_turn}) {
    request_.limits.max_tokens = limit;
    std::vector<std::string> replies;
    for (int i = 0; i < 50; ++i) replies.push_back(Call("probe", StrCat("{\"n\": ", i, "}")));
    const RunFinal final = Run(replies);
    EXPECT_EQ(final.status, RunStatus::kLimit);
    EXPECT_EQ(final.detail, StrCat("max_tokens ", limit));
    EXPECT_LE(final.usage.prompt_tokens + final.usage.completion_tokens, limit);
  }
}

TEST_F(AgentLoopTest, OldResultsMakeRoomInTheWindow) {
  request_.limits.max_tokens = 10000000;
  request_.limits.max_turns = 20;
  std::vector<std::string> replies;
  for (int i = 0; i < 6; ++i) replies.push_back(Call("probe", StrCat("{\"n\": ", i, "}")));
  replies.push_back("Done.");
  int n = 0;
  probe_.during = [&](const RequestContext&) {
    probe_.result = std::string(4000, static_cast<char>('a' + n++));
  };
  EXPECT_EQ(Run(replies).status, RunStatus::kCompleted);
  const auto& messages = model_.requests.back().messages;
  EXPECT_EQ(messages[3].content, "(left out to make room)");
  EXPECT_EQ(messages.back().content.size(), 4000u);
  EXPECT_THAT(messages, SizeIs(2 + 12));  // no message is gone
}

TEST_F(AgentLoopTest, TimeRunsOutBetweenSteps) {
  request_.limits.max_time = absl::Milliseconds(50);
  probe_.during = [](const RequestContext& context) {
    while (context.Check().ok()) absl::SleepFor(absl::Milliseconds(1));
  };
  probe_.result = absl::DeadlineExceededError("late");
  const RunFinal final =
      Run({Call("probe", "{}") + Call("calculator", R"({"expression": "1"})"), "never"});
  EXPECT_EQ(final.status, RunStatus::kLimit);
  EXPECT_THAT(final.detail, HasSubstr("max_time"));
  EXPECT_THAT(Of<ToolCall>(), SizeIs(1));
}

TEST_F(AgentLoopTest, CancellationStopsWithinAStep) {
  CancelSource source;
  probe_.during = [&](const RequestContext&) { source.Cancel(); };
  RunFinal final =
      Run({"Half. " + Call("probe", "{}") + Call("calculator", R"({"expression": "1"})"), "never"},
          RequestContext(source));
  EXPECT_EQ(final.status, RunStatus::kCancelled);
  EXPECT_EQ(final.answer, "Half.");
  EXPECT_THAT(Of<ToolCall>(), SizeIs(1));
  EXPECT_THAT(Of<ToolResult>(), SizeIs(1));  // the call has its result

  on_event_ = [](const RunEvent& event) { return !std::holds_alternative<ModelOutput>(event); };
  final = Run({Call("probe", "{}"), "never"});
  EXPECT_EQ(final.status, RunStatus::kCancelled);
  EXPECT_THAT(Of<ToolCall>(), IsEmpty());
}

TEST_F(AgentLoopTest, AFailingModelFailsTheRun) {
  model_.error = absl::UnavailableError("engine down");
  const RunFinal final = Run({});
  EXPECT_EQ(final.status, RunStatus::kFailed);
  EXPECT_EQ(final.detail, "engine down");
}

TEST_F(AgentLoopTest, BadRequestsAndToolsAreRefused) {
  auto loop = AgentLoop::Create(&model_, &retriever_, store_.get());
  const auto field_of = [&](auto change) {
    RunRequest request = request_;
    change(request);
    const auto r =
        (*loop)->Run(RequestContext::Background(), request, [](auto, auto&) { return true; });
    EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
    return FieldOf(r.status());
  };
  EXPECT_EQ(field_of([](RunRequest& r) { r.task = " "; }), "task");
  EXPECT_EQ(field_of([](RunRequest& r) { r.task = std::string(10000, 'x'); }), "task");
  EXPECT_EQ(field_of([](RunRequest& r) { r.task = "\xff"; }), "task");
  EXPECT_EQ(field_of([](RunRequest& r) { r.collection = ""; }), "collection");
  EXPECT_EQ(field_of([](RunRequest& r) { r.limits.max_turns = 0; }), "limits.max_turns");
  EXPECT_EQ(field_of([](RunRequest& r) { r.limits.max_tokens = -1; }), "limits.max_tokens");
  EXPECT_EQ(field_of([](RunRequest& r) { r.limits.max_time = absl::ZeroDuration(); }),
            "limits.max_time");
  EXPECT_THAT(*store_->List(RequestContext::Background(), 10), IsEmpty());
  for (const char* name : {"search", "give_up", "bad name", ""}) {
    FakeTool tool;
    tool.name_ = name;
    EXPECT_FALSE(AgentLoop::Create(&model_, &retriever_, store_.get(), {&tool}).ok()) << name;
  }
  FakeTool tool;
  tool.schema = R"({"unevaluatedProperties": false})";
  EXPECT_FALSE(AgentLoop::Create(&model_, &retriever_, store_.get(), {&tool}).ok());
}

TEST_F(AgentLoopTest, TheStoreKeepsRunsForTheirOwnerAndAcrossRestarts) {
  Run({Call("nothing", "{}"), Call("calculator", R"({"expression": "2^64"})"),
       "18446744073709551616"});
  const auto live = events_;
  // A run whose process died.
  const std::string dead = *store_->Create(RequestContext::Background(), request_);
  ASSERT_TRUE(store_->Append(RequestContext::Background(), dead, StepStarted{0}).ok());
  store_ = nullptr;
  store_ = *RunStore::Open(dir_ + "/runs.db");

  const auto record = store_->Get(RequestContext::Background(), run_id_);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->info.task, request_.task);
  ASSERT_EQ(record->events.size(), live.size());
  for (size_t i = 0; i < live.size(); ++i) EXPECT_EQ(record->events[i].index(), live[i].index());
  EXPECT_EQ(std::get<RunFinal>(record->events.back()).answer, "18446744073709551616");
  EXPECT_EQ(std::get<RunFinal>(record->events.back()).usage.turns, 3);
  EXPECT_EQ(record->info.final.usage.tool_calls, 1);

  const auto interrupted = store_->Get(RequestContext::Background(), dead);
  EXPECT_EQ(interrupted->info.final.status, RunStatus::kFailed);
  EXPECT_FALSE(store_->Append(RequestContext::Background(), dead, StepStarted{1}).ok());
  EXPECT_THAT(*store_->List(RequestContext::Background(), 10), SizeIs(2));

  const RequestContext other(CancelSource(), absl::InfiniteFuture(), {.principal = "bob"});
  EXPECT_EQ(store_->Get(other, run_id_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(*store_->List(other, 10), IsEmpty());
}

}  // namespace
}  // namespace cairn::agent
