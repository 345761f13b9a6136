#include "agent/ask/ask.h"

#include <filesystem>
#include <set>

#include "absl/time/clock.h"
#include "agent/ask/attribution.h"
#include "agent/ask/prompt.h"
#include "agent/ask/relevance.h"
#include "agent/ask/rewrite.h"
#include "agent/session/session_store.h"
#include "agent/testing/fakes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kChannel[] =
    "ChannelOptions.timeout_ms is the timeout of all RPCs via the channel. The default value is "
    "500 milliseconds. "
    "A channel does not own its servers. Retries are done at most 3 times by default.";
constexpr char kBthread[] =
    "bthread is an M:N threading library used in brpc. A bthread never blocks the pthread that "
    "runs it. "
    "It was written at Baidu in 2014 by the infrastructure team.";
constexpr char kChinese[] =
    "bvar是多线程环境下的计数器类库。写入bvar不会产生竞争，读取时合并各线程的数据。默认每秒采样1次"
    "。";

// Runs a question and checks what must hold for every answer.
class AskTest : public ::testing::Test {
 protected:
  AskTest() {
    retriever_.passages = {PlainPassage("client.md", 0, kChannel),
                           PlainPassage("bthread.md", 1, kBthread)};
  }

  absl::StatusOr<AskResult> Ask(const AskRequest& request,
                                const RequestContext& context = RequestContext::Background()) {
    events_.clear();
    AskPipeline pipeline(&model_, &retriever_, scorer_, sessions_.get(), options_);
    auto result = pipeline.Ask(context, request, [&](const AskEvent& event) {
      events_.push_back(event);
      return !stop_after_ || static_cast<int>(events_.size()) < stop_after_;
    });
    if (result.ok()) CheckInvariants(*result);
    return result;
  }

  AskResult Answer(std::string question, std::string reply, bool strict = false) {
    model_.replies = {std::move(reply)};
    AskRequest request;
    request.collection = "docs";
    request.question = std::move(question);
    request.strict = strict;
    auto result = Ask(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : AskResult();
  }

  void CheckInvariants(const AskResult& result) {
    ASSERT_FALSE(events_.empty());
    ASSERT_TRUE(std::holds_alternative<FinalEvent>(events_.back()));
    std::string streamed;
    std::vector<AnswerSentence> sentences;
    for (size_t i = 0; i < events_.size(); ++i) {
      if (const auto* delta = std::get_if<TextDelta>(&events_[i])) streamed += delta->text;
      if (const auto* citation = std::get_if<CitationEvent>(&events_[i])) {
        EXPECT_LE(citation->sentence.end, streamed.size()) << "the text must be sent first";
        sentences.push_back(citation->sentence);
      }
      EXPECT_TRUE(!std::holds_alternative<SourcesEvent>(events_[i]) || i == 0);
    }
    EXPECT_EQ(streamed, result.answer);
    ASSERT_EQ(sentences.size(), result.sentences.size());
    for (size_t i = 0; i < sentences.size(); ++i) {
      const AnswerSentence& s = result.sentences[i];
      EXPECT_EQ(s.index, static_cast<int>(i));
      EXPECT_EQ(sentences[i].begin, s.begin);
      EXPECT_EQ(sentences[i].citations.size(), s.citations.size());
      EXPECT_EQ(s.supported, s.issues.empty());
      EXPECT_TRUE(!s.supported || !s.citations.empty());
      for (const Citation& c : s.citations) {
        const auto passage =
            retriever_.FetchChunk(RequestContext::Background(), "docs", c.chunk_id);
        ASSERT_TRUE(passage.ok()) << passage.status();
        EXPECT_EQ(c.document_id, passage->document_id);
        EXPECT_EQ(c.version, passage->version);
        ASSERT_GE(c.span_begin, passage->span_begin);
        ASSERT_LE(c.span_end, passage->span_end);
        EXPECT_EQ(c.quote, passage->source.substr(c.span_begin - passage->span_begin,
                                                  c.span_end - c.span_begin));
        EXPECT_THAT(passage->text, HasSubstr(c.text));
        ASSERT_GE(c.source, 1);
        ASSERT_LE(c.source, static_cast<int>(result.sources.size()));
        const Source& source = result.sources[c.source - 1];
        EXPECT_EQ(source.document_id, c.document_id);
        EXPECT_THAT(source.chunk_ids, ::testing::Contains(c.chunk_id));
      }
    }
  }

  std::string SentenceText(const AskResult& r, int i) {
    return r.answer.substr(r.sentences[i].begin, r.sentences[i].end - r.sentences[i].begin);
  }

  ScriptedModel model_;
  FakeRetriever retriever_;
  SupportScorer* scorer_ = nullptr;
  std::unique_ptr<SessionStore> sessions_;
  AskOptions options_;
  std::vector<AskEvent> events_;
  int stop_after_ = 0;
};

TEST_F(AskTest, CitesTheSentenceThatSaysIt) {
  const AskResult r = Answer(
      "What is the default timeout of a channel?",
      "The default timeout of a channel is 500 milliseconds. Retries are done at most 3 times.");
  ASSERT_THAT(r.sentences, SizeIs(2));
  EXPECT_TRUE(r.sentences[0].supported);
  EXPECT_EQ(r.sentences[0].citations[0].quote, "The default value is 500 milliseconds.");
  EXPECT_EQ(r.sentences[1].citations[0].quote, "Retries are done at most 3 times by default.");
  EXPECT_EQ(SentenceText(r, 1), "Retries are done at most 3 times.");
  EXPECT_FALSE(r.abstained);
  EXPECT_EQ(r.usage.model_calls, 1);
  EXPECT_GT(r.usage.prompt_tokens, 0);
  EXPECT_EQ(r.timings.size(), 6u);
}

TEST_F(AskTest, ChineseQuestionGetsChinesePromptAndCitations) {
  retriever_.passages = {PlainPassage("bvar.md", 0, kChinese)};
  const AskResult r =
      Answer("bvar是什么？", "bvar是多线程环境下的计数器类库。读取时合并各线程的数据。");
  EXPECT_EQ(r.language, "zh");
  EXPECT_THAT(model_.requests[0].messages.back().content, HasSubstr("问题：bvar是什么？"));
  ASSERT_THAT(r.sentences, SizeIs(2));
  EXPECT_EQ(r.sentences[0].citations[0].quote, "bvar是多线程环境下的计数器类库。");
  EXPECT_TRUE(r.sentences[1].supported);
}

TEST_F(AskTest, AQuestionWordThatDrewTheWrongPassagesIsLeftOutOnce) {
  retriever_.passages = {PlainPassage("bvar.md", 0, kChinese)};
  retriever_.by_query["bvar是什么？"] = {PlainPassage("faq.md", 0, "这个错误是什么意思？")};
  const AskResult r = Answer("bvar是什么？", "bvar是多线程环境下的计数器类库。");
  EXPECT_FALSE(r.abstained);
  ASSERT_THAT(retriever_.searches, SizeIs(2));
  EXPECT_EQ(retriever_.searches[1].query, "bvar ？");
}

TEST_F(AskTest, WrongNumbersNamesAndNegationAreFlagged) {
  const std::string good = "The default timeout of a channel is 500 milliseconds. ";
  const struct {
    const char* sentence;
    const char* reason;
    const char* detail;
  } cases[] = {
      {"The default value is 800 milliseconds.", "NUMBER_NOT_IN_SOURCE", "800"},
      {"Retries are done at most 5 times by default.", "NUMBER_NOT_IN_SOURCE", "5"},
      {"A channel does not own its FlatMap servers.", "NAME_NOT_IN_SOURCE", "FlatMap"},
      {"A channel owns its servers.", "NEGATION_DIFFERS", ""},
      {"Penguins live near the cold southern ocean.", "NO_MATCHING_SOURCE", ""},
  };
  for (const auto& c : cases) {
    const AskResult r = Answer("What is the default timeout of a channel?", good + c.sentence);
    ASSERT_THAT(r.sentences, SizeIs(2)) << c.sentence;
    EXPECT_FALSE(r.sentences[1].supported) << c.sentence;
    ASSERT_FALSE(r.sentences[1].issues.empty()) << c.sentence;
    EXPECT_EQ(r.sentences[1].issues[0].reason, c.reason) << c.sentence;
    EXPECT_EQ(r.sentences[1].issues[0].detail, c.detail) << c.sentence;

    const AskResult strict =
        Answer("What is the default timeout of a channel?",
               good + c.sentence + " A channel does not own its servers.", true);
    EXPECT_THAT(strict.answer, Not(HasSubstr(c.sentence)));
    EXPECT_EQ(strict.answer, good + "A channel does not own its servers.");
    EXPECT_EQ(strict.removed_sentences, 1);
  }
}

// Right words of two sources do not make a right sentence; two right statements do.
TEST_F(AskTest, WordsOfTwoSourcesInOneClauseAreNoSupport) {
  const auto verdict = [&](const std::string& question, const std::string& sentence) {
    // A good sentence first, so that the answer is not held back as a whole.
    const AskResult r = Answer(question, sentence);
    return r.sentences.empty()            ? std::string("nothing")
           : r.sentences.back().supported ? "supported"
                                          : r.sentences.back().issues[0].reason;
  };
  retriever_.passages = {
      PlainPassage("pump.md", 0,
                   "The Halvorsen pump must be greased every 450 hours. Use lithium grease only. "
                   "The motor hums quietly. The inlet filter is cleaned each spring."),
      PlainPassage("kitchen.md", 1,
                   "The kitchen staff fries potatoes in olive oil. The door frame is painted in "
                   "glossy blue varnish.")};
  const std::string pump = "How is the Halvorsen pump greased?";
  const std::string good = "The Halvorsen pump must be greased every 450 hours. ";
  EXPECT_EQ(verdict(pump, good + "The Halvorsen pump is greased with olive oil from potatoes."),
            "SOURCES_MIXED");
  EXPECT_EQ(verdict(pump, good + "The Halvorsen pump motor is painted in glossy blue varnish."),
            "SOURCES_MIXED");
  // Two sentences of one source, and two statements joined, are as they were said.
  EXPECT_EQ(verdict(pump, good + "The Halvorsen pump must be greased with lithium grease only."),
            "supported");
  EXPECT_EQ(verdict(pump, good + "The Halvorsen pump must be greased every 450 hours and the door "
                                 "frame is painted in glossy blue varnish."),
            "supported");

  // Words of the question, of which the source of the answer holds some only.
  retriever_.passages = {
      PlainPassage("log.md", 0,
                   "A message is bigger than 67108864 bytes, the connection will be closed."),
      PlainPassage("http.md", 1, "The maximum size of a compressed body is checked as well.")};
  EXPECT_EQ(verdict("What is the maximum size of a message body?",
                    "The maximum size of a message body is 67108864 bytes."),
            "supported");

  retriever_.passages = {
      PlainPassage("shuibeng.md", 0, "水泵每450小时必须加注锂基润滑脂。电机运转时声音很轻。"),
      PlainPassage("men.md", 1, "门框每年春天用蓝色油漆粉刷。")};
  const std::string shuibeng = "水泵多久加注润滑脂?";
  const std::string hao = "水泵每450小时必须加注锂基润滑脂。";
  EXPECT_EQ(verdict(shuibeng, hao + "水泵每450小时必须用蓝色油漆粉刷。"), "SOURCES_MIXED");
  EXPECT_EQ(verdict(shuibeng, hao + "水泵必须加注锂基润滑脂，门框用蓝色油漆粉刷。"), "supported");
}

TEST_F(AskTest, ASourceThatSaysItTheOtherWayRoundIsNoSupport) {
  retriever_.passages = {
      PlainPassage("rpc.md", 0,
                   "The Scheduler wakes the Dispatcher after a timeout. A client calls the server. "
                   "The Router is configured by the Balancer. bthread and pthread share memory."),
      PlainPassage("zh.md", 1, "其中 Scheduler 会唤醒 Dispatcher 并返回。")};
  const struct {
    const char* sentence;
    bool supported;
  } cases[] = {
      {"The Scheduler wakes the Dispatcher after a timeout.", true},
      {"The Dispatcher wakes the Scheduler after a timeout.", false},
      {"A `server` calls the client.", false},
      {"The Balancer is configured by the Router.", false},
      {"pthread and bthread share memory.", true},  // holds both ways
      {"其中 Scheduler 会唤醒 Dispatcher 并返回。", true},
      {"其中 Dispatcher 会唤醒 Scheduler 并返回。", false},
  };
  for (const auto& c : cases) {
    const AskResult r =
        Answer("What wakes the Dispatcher?",
               std::string("The Scheduler wakes the Dispatcher after a timeout. ") + c.sentence);
    ASSERT_FALSE(r.sentences.empty()) << c.sentence;
    EXPECT_EQ(r.sentences.back().supported, c.supported) << c.sentence;
    if (!c.supported) {
      ASSERT_FALSE(r.sentences.back().issues.empty());
      EXPECT_EQ(r.sentences.back().issues.back().reason, "ROLES_SWAPPED") << c.sentence;
    }
  }
}

TEST_F(AskTest, NothingRelevantAbstainsWithoutTheGenerator) {
  retriever_.passages.clear();
  AskResult r = Answer("What is a channel?", "never used");
  EXPECT_TRUE(r.abstained);
  EXPECT_EQ(r.abstain_reason, "NO_RELEVANT_SOURCE");
  EXPECT_THAT(model_.requests, IsEmpty());
  EXPECT_EQ(r.answer, AbstentionText("en"));
  EXPECT_THAT(events_, SizeIs(2));  // text, final: no sources
}

TEST_F(AskTest, ANameThatNoSourceHoldsAbstainsWithoutTheGenerator) {
  const AskResult r =
      Answer("Which port does the WebSocket proxy of a channel use?", "It uses port 500.");
  EXPECT_EQ(r.abstain_reason, "NO_RELEVANT_SOURCE");
  EXPECT_THAT(r.abstain_detail, HasSubstr("WebSocket"));
  EXPECT_THAT(model_.requests, IsEmpty());
}

TEST_F(AskTest, QuestionAboutSomethingElseAbstainsWithoutTheGenerator) {
  const AskResult r = Answer("How do penguins survive the antarctic winter?", "They huddle.");
  EXPECT_EQ(r.abstain_reason, "NO_RELEVANT_SOURCE");
  EXPECT_THAT(model_.requests, IsEmpty());
}

TEST_F(AskTest, AnInventedAnswerAbstainsAndNothingOfItIsStreamed) {
  // What the 0.5B model does with an unanswerable question.
  AskResult r = Answer("Which year was the timeout of a channel chosen?",
                       "The timeout was chosen in 1999. The channel was chosen in 1999.");
  EXPECT_TRUE(r.abstained);
  EXPECT_EQ(r.abstain_reason, "NO_SUPPORT");
  EXPECT_EQ(r.answer, AbstentionText("en"));
  EXPECT_THAT(r.sentences, IsEmpty());
  // What the 1.5B does: it copies a source out, which is supported and beside the question.
  r = Answer("Which year was the timeout of a channel chosen?",
             "A channel does not own its servers.");
  EXPECT_TRUE(r.abstained);
  EXPECT_THAT(r.abstain_detail, HasSubstr("what the question asks for"));
}

TEST_F(AskTest, TheGeneratorsOwnRefusalAbstains) {
  AskResult r = Answer("What is the default timeout of a channel?",
                       "The sources do not say. The default value is 500 milliseconds.");
  EXPECT_TRUE(r.abstained);
  EXPECT_TRUE(model_.stopped_by_caller);
  retriever_.passages = {PlainPassage("bvar.md", 0, kChinese)};
  r = Answer("bvar是什么？", "资料中没有说明。");
  EXPECT_EQ(r.answer, AbstentionText("zh"));
}

TEST_F(AskTest, UnsupportedOpeningWaitsForSupport) {
  const AskResult r = Answer("What is the default timeout of a channel?",
                             "Penguins live in the south. The default value is 500 milliseconds.");
  ASSERT_THAT(r.sentences, SizeIs(2));
  EXPECT_FALSE(r.sentences[0].supported);
  EXPECT_TRUE(r.sentences[1].supported);
  const AskResult strict =
      Answer("What is the default timeout of a channel?",
             "Penguins live in the south. The default value is 500 milliseconds.", true);
  EXPECT_EQ(strict.answer, "The default value is 500 milliseconds.");
}

// Fake, unknown, split and linked markers, by any size of delta, change nothing but the count.
TEST_F(AskTest, MarkersAreNeverShownNorBelieved) {
  const std::string clean =
      "The default value is 500 milliseconds. A bthread never blocks the pthread that runs it.";
  const char* replies[] = {
      "[2] The default value is 500 milliseconds. [1] A bthread never blocks the pthread that runs "
      "it.",
      "The default value is 500 milliseconds [999]. A bthread never blocks the pthread that runs "
      "it [0].",
      "The default value is 500 milliseconds.[1][2][3] A bthread never blocks the pthread that "
      "runs it.[^7]",
      "The default value is 500 milliseconds【1】. A bthread never blocks the pthread that runs it "
      "[1, 999].",
  };
  for (const char* reply : replies) {
    for (const size_t bytes : {1, 2, 3, 1000}) {
      model_.delta_bytes = bytes;
      const AskResult r = Answer("What is the default timeout value of a channel?", reply);
      EXPECT_EQ(r.answer, clean) << reply;
      ASSERT_THAT(r.sentences, SizeIs(2));
      EXPECT_EQ(r.sentences[0].citations[0].document_id, "client.md") << reply;
      EXPECT_EQ(r.sentences[1].citations[0].document_id, "bthread.md") << reply;
    }
  }
  EXPECT_EQ(Answer("What is the default timeout of a channel?", replies[1]).unknown_markers, 2);
}

TEST_F(AskTest, OneByteAtATimeIsTheSameAnswer) {
  const std::string reply =
      "The default value is 500 milliseconds。\n\n- Retries are done at most 3 times.\n- 默认 500 "
      "milliseconds！ok\n```\nint x;\n```\n";
  std::string first;
  for (const size_t bytes : {1, 2, 4, 7, 500}) {
    model_.delta_bytes = bytes;
    const AskResult r = Answer("What is the default timeout value of a channel?", reply);
    if (first.empty()) first = r.answer;
    EXPECT_EQ(r.answer, first);
  }
  EXPECT_THAT(first, HasSubstr("Retries are done at most 3 times."));
}

TEST_F(AskTest, HostileAnswersEndWell) {
  const std::string replies[] = {std::string(50000, '1'),
                                 "[" + std::string(50000, '7'),
                                 std::string(3000, '\n'),
                                 "",
                                 std::string("\0\xff\xfe", 3),
                                 "```",
                                 "[1]",
                                 "。。。！！！"};
  for (const std::string& reply : replies) {
    model_.delta_bytes = 1;
    const AskResult r = Answer("What is the default timeout value of a channel?", reply);
    EXPECT_TRUE(r.abstained);
  }
}

TEST_F(AskTest, ARepeatingGeneratorIsStopped) {
  std::string reply;
  for (int i = 0; i < 100; ++i) reply += "The default value is 500 milliseconds. ";
  const AskResult r = Answer("What is the default timeout value of a channel?", reply);
  EXPECT_EQ(r.answer, "The default value is 500 milliseconds.");
  EXPECT_TRUE(model_.stopped_by_caller);
}

// A GB18030 document: text and source have different sizes, quotes are bytes of the source.
TEST_F(AskTest, QuotesOfAnotherEncodingAreSourceBytes) {
  // "默认超时是500毫秒。" and "重试3次。" in GB18030, one run per stretch.
  const std::string gb1 =
      "\xC4\xAC\xC8\xCF\xB3\xAC\xCA\xB1\xCA\xC7"
      "500"
      "\xBA\xC1\xC3\xEB\xA1\xA3";
  const std::string gb2 =
      "\xD6\xD8\xCA\xD4"
      "3"
      "\xB4\xCE\xA1\xA3";
  Passage p = PlainPassage("gb.txt", 0, "默认超时是500毫秒。重试3次。");
  p.source = gb1 + gb2;
  p.span_begin = 1000;
  p.span_end = 1000 + p.source.size();
  p.runs = {{0, 15, 1000, 10}, {15, 3, 1010, 3}, {18, 9, 1013, 6},
            {27, 6, 1019, 4},  {33, 1, 1023, 1}, {34, 6, 1024, 4}};
  ASSERT_EQ(p.text.size(), 40u);
  retriever_.passages = {p};
  const AskResult r = Answer("默认超时是多少？", "默认超时是500毫秒。");
  ASSERT_THAT(r.sentences, SizeIs(1));
  EXPECT_EQ(r.sentences[0].citations[0].quote, gb1);
  EXPECT_EQ(r.sentences[0].citations[0].span_begin, 1000u);
  EXPECT_EQ(r.sentences[0].citations[0].text, "默认超时是500毫秒。");
}

TEST_F(AskTest, RunsThatDoNotFitTheSourceFailTheAnswer) {
  Passage p = PlainPassage("client.md", 0, kChannel);
  p.source[3] ^= 1;
  retriever_.passages = {p};
  model_.replies = {"x"};
  const auto r = Ask({.collection = "docs", .question = "What is the timeout of a channel?"});
  EXPECT_EQ(r.status().code(), absl::StatusCode::kInternal);
}

TEST_F(AskTest, MarkupBetweenRunsIsInsideTheQuote) {
  Passage p = PlainPassage("a.md", 0, "The default timeout is 500 ms.");
  p.source = "The **default** timeout is `500` ms.";
  p.span_end = p.span_begin + p.source.size();
  p.runs = {{0, 4, 100, 4}, {4, 7, 106, 7}, {11, 12, 115, 12}, {23, 3, 128, 3}, {26, 4, 132, 4}};
  retriever_.passages = {p};
  const AskResult r = Answer("What is the default timeout?", "The default timeout is 500 ms.");
  ASSERT_THAT(r.sentences, SizeIs(1));
  EXPECT_EQ(r.sentences[0].citations[0].quote, p.source);
}

TEST_F(AskTest, SourcesComeFirstAndAreInDocumentOrder) {
  Passage a = PlainPassage("client.md", 0, "A channel has a timeout.", 0);
  Passage b = PlainPassage("client.md", 1, "The default value is 500 milliseconds.", 24);
  Passage far = PlainPassage("client.md", 9, "Channels have names.", 900);
  Passage other = PlainPassage("zzz.md", 0, "A timeout of a channel ends the call.", 0);
  Passage copy = other;
  copy.chunk_id = "copy#0";
  copy.document_id = "copy.md";
  b.score = 0.9, far.score = 0.8, a.score = 0.5, other.score = 0.95, copy.score = 0.3;
  retriever_.passages = {other, b, far, a, copy};
  const AskResult r =
      Answer("What is the default timeout of a channel?", "The default value is 500 milliseconds.");
  ASSERT_THAT(r.sources, SizeIs(3));
  EXPECT_EQ(r.sources[0].document_id, "zzz.md");
  EXPECT_THAT(r.sources[1].chunk_ids, ElementsAre("client.md#0", "client.md#1"));
  EXPECT_EQ(r.sources[1].span_end, b.span_end);
  EXPECT_THAT(r.sources[2].chunk_ids, ElementsAre("client.md#9"));
  ASSERT_THAT(r.left_out, SizeIs(1));
  EXPECT_EQ(r.left_out[0].reason, "DUPLICATE");
  EXPECT_EQ(r.sentences[0].citations[0].chunk_id, "client.md#1");
  const std::string& prompt = model_.requests[0].messages.back().content;
  EXPECT_THAT(prompt, HasSubstr("[2] client.md\nA channel has a timeout.\nThe default value"));
  EXPECT_TRUE(std::holds_alternative<SourcesEvent>(events_[0]));
}

TEST_F(AskTest, BudgetNeverCutsTheQuestion) {
  const std::string question = "What is the default timeout of a channel?";
  retriever_.passages.clear();
  for (uint32_t i = 0; i < 8; ++i) {
    Passage p = PlainPassage(
        StrCat("d", i), 0,
        StrCat("The default timeout of a channel is ", 500 + i, " ms. ", std::string(400, 'x')));
    p.score = 0.9 - 0.05 * i;
    retriever_.passages.push_back(p);
  }
  model_.window = 1300;
  const AskResult r = Answer(question, "The default timeout of a channel is 500 ms.");
  EXPECT_THAT(r.left_out, Not(IsEmpty()));
  EXPECT_EQ(r.left_out[0].reason, "TOKEN_BUDGET");
  EXPECT_EQ(r.sources.size() + r.left_out.size(), 8u);
  int tokens = 0;
  for (const Message& m : model_.requests[0].messages) tokens += ScriptedModel::Tokens(m.content);
  EXPECT_LE(tokens + model_.requests[0].max_tokens, 1300);
  EXPECT_THAT(model_.requests[0].messages.back().content, HasSubstr(question));

  model_.window = 600;
  const auto too_small = Ask({.collection = "docs", .question = question});
  EXPECT_EQ(ReasonOf(too_small.status()), "CONTEXT_WINDOW_EXCEEDED");
}

TEST_F(AskTest, BadRequestsNameTheField) {
  const std::pair<AskRequest, const char*> cases[] = {
      {{.collection = "", .question = "x"}, "collection"},
      {{.collection = "c", .question = " \n"}, "question"},
      {{.collection = "c", .question = std::string(9000, 'x')}, "question"},
      {{.collection = "c", .question = "\xff"}, "question"},
      {{.collection = "c", .question = std::string("a\0b", 3)}, "question"},
      {{.collection = "c", .question = "x", .top_k = -1}, "top_k"},
      {{.collection = "c", .question = "x", .top_k = 1000}, "top_k"},
      {{.collection = "c", .question = "x", .max_tokens = -5}, "max_tokens"},
      {{.collection = "c", .question = "x", .temperature = -1}, "temperature"},
      {{.collection = "c", .question = "x", .temperature = std::numeric_limits<float>::quiet_NaN()},
       "temperature"},
      {{.collection = "c", .question = "x", .history = {{Message::Role::kSystem, "obey"}}},
       "history"},
  };
  for (const auto& [request, field] : cases) {
    const auto r = Ask(request);
    EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_EQ(FieldOf(r.status()), field);
  }
  EXPECT_EQ(Ask({.collection = "c", .question = "x", .new_session = true}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(AskTest, CancellationAndErrorsStopTheWork) {
  const AskRequest request{.collection = "docs",
                           .question = "What is the default timeout value of a channel?"};
  const std::string reply =
      "The default value is 500 milliseconds. Retries are done at most 3 times. More. And more.";
  CancelSource source;
  model_.replies = {reply};
  model_.before_reply = [&] { source.Cancel(); };
  EXPECT_EQ(Ask(request, RequestContext(source)).status().code(), absl::StatusCode::kCancelled);
  model_.before_reply = nullptr;

  model_.replies = {reply};
  stop_after_ = 2;  // sources, first text
  EXPECT_EQ(Ask(request).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(model_.stopped_by_caller);
  EXPECT_THAT(events_, SizeIs(2));
  stop_after_ = 0;

  EXPECT_EQ(
      Ask(request, RequestContext::Background().WithTimeout(absl::ZeroDuration())).status().code(),
      absl::StatusCode::kDeadlineExceeded);
  model_.error = absl::UnavailableError("engine down");
  const auto failed = Ask(request);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("generate"));
  retriever_.error = absl::NotFoundError("no collection docs");
  EXPECT_EQ(Ask(request).status().code(), absl::StatusCode::kNotFound);
}

class FakeScorer : public SupportScorer {
 public:
  absl::StatusOr<std::vector<float>> Similarity(
      const RequestContext&, std::string_view,
      std::span<const std::string_view> candidates) override {
    ++calls;
    if (!error.ok()) return error;
    std::vector<float> cosines;
    for (const auto& c : candidates)
      cosines.push_back(c.find(like) != std::string_view::npos ? 0.95f : 0.80f);
    return cosines;
  }
  std::string like;
  absl::Status error;
  int calls = 0;
};

TEST_F(AskTest, SimilarityFindsAParaphrase) {
  FakeScorer scorer;
  scorer.like = "never blocks";
  const char* paraphrase = "Such a thread leaves its carrier bthread free at any moment.";
  AskResult r = Answer("What does a bthread do?", paraphrase);
  EXPECT_TRUE(r.abstained);
  scorer_ = &scorer;
  r = Answer("What does a bthread do?", paraphrase);
  ASSERT_THAT(r.sentences, SizeIs(1));
  EXPECT_THAT(r.sentences[0].citations[0].quote, HasSubstr("never blocks"));
}

TEST_F(AskTest, AFailingScorerIsNamedAndTheAnswerGoesOn) {
  FakeScorer scorer;
  scorer.error = absl::UnavailableError("no embedder");
  scorer_ = &scorer;
  const AskResult r = Answer("What is the default timeout value of a channel?",
                             "The preset default duration amounts to 500 milliseconds. "
                             "Retries are done at most 3 times.");
  EXPECT_THAT(r.degraded, ElementsAre("similarity: no embedder"));
  EXPECT_EQ(scorer.calls, 1);
  EXPECT_TRUE(r.sentences[1].supported);
  scorer.error = absl::DeadlineExceededError("late");
  model_.replies = {"The preset default duration amounts to 500 milliseconds."};
  EXPECT_EQ(Ask({.collection = "docs", .question = "What is the default timeout of a channel?"})
                .status()
                .code(),
            absl::StatusCode::kDeadlineExceeded);
}

class AskSessionTest : public AskTest {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/ask_session_test";
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    sessions_ = *SessionStore::Open(dir_ + "/sessions.db");
  }
  static RequestContext As(std::string principal, std::string tenant = "") {
    return RequestContext(CancelSource(), absl::InfiniteFuture(),
                          {.principal = principal, .tenant = tenant});
  }
  std::string dir_;
};

TEST_F(AskSessionTest, KeepsTheTurnWithItsCitationsForItsOwnerOnly) {
  model_.replies = {"The default value is 500 milliseconds. Penguins live in the south."};
  AskRequest request{.collection = "docs", .question = "What is the default timeout of a channel?"};
  request.new_session = true;
  const auto r = Ask(request, As("ann"));
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_THAT(r->session_id, SizeIs(32));

  sessions_ = nullptr;
  sessions_ = *SessionStore::Open(dir_ + "/sessions.db");
  const auto turns = sessions_->History(As("ann"), r->session_id, 10);
  ASSERT_TRUE(turns.ok()) << turns.status();
  ASSERT_THAT(*turns, SizeIs(1));
  const SessionTurn& turn = (*turns)[0];
  EXPECT_EQ(turn.question, request.question);
  EXPECT_EQ(turn.answer, r->answer);
  ASSERT_EQ(turn.sentences.size(), r->sentences.size());
  const Citation& kept = turn.sentences[0].citations[0];
  const Citation& sent = r->sentences[0].citations[0];
  EXPECT_EQ(std::tie(kept.source, kept.chunk_id, kept.document_id, kept.version, kept.span_begin,
                     kept.span_end, kept.quote, kept.text, kept.score),
            std::tie(sent.source, sent.chunk_id, sent.document_id, sent.version, sent.span_begin,
                     sent.span_end, sent.quote, sent.text, sent.score));
  EXPECT_EQ(turn.sentences[1].issues[0].reason, "NO_MATCHING_SOURCE");

  for (const RequestContext& other : {As("bob"), As("ann", "acme"), As("")}) {
    EXPECT_EQ(sessions_->History(other, r->session_id, 10).status().code(),
              absl::StatusCode::kNotFound);
    EXPECT_EQ(sessions_->Delete(other, r->session_id).code(), absl::StatusCode::kNotFound);
    AskRequest intruding = request;
    intruding.new_session = false;
    intruding.session_id = r->session_id;
    EXPECT_EQ(Ask(intruding, other).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(*sessions_->List(other, 10), IsEmpty());
  }
  EXPECT_THAT(*sessions_->List(As("ann"), 10), SizeIs(1));
  EXPECT_TRUE(sessions_->Delete(As("ann"), r->session_id).ok());
  EXPECT_EQ(sessions_->Get(As("ann"), r->session_id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(AskSessionTest, AFollowUpIsRewrittenAndAFreshQuestionIsNot) {
  AskRequest request{.collection = "docs", .question = "What is the default timeout of a channel?"};
  request.new_session = true;
  model_.replies = {"The default value is 500 milliseconds."};
  const std::string id = Ask(request)->session_id;
  request.new_session = false;
  request.session_id = id;

  request.question = "How many retries does it do?";
  model_.replies = {"How many retries does a channel do?",
                    "Retries are done at most 3 times by default."};
  auto r = Ask(request);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->standalone_question, "How many retries does a channel do?");
  EXPECT_EQ(retriever_.searches.back().query, r->standalone_question);
  EXPECT_EQ(r->usage.model_calls, 2);

  request.question = "What is a bthread in brpc?";
  model_.replies = {"bthread is an M:N threading library used in brpc."};
  r = Ask(request);
  EXPECT_EQ(r->standalone_question, request.question);
  EXPECT_EQ(r->usage.model_calls, 1);
  EXPECT_THAT(*sessions_->History(RequestContext::Background(), id, 10), SizeIs(3));
  const auto last_two = *sessions_->History(RequestContext::Background(), id, 2);
  ASSERT_THAT(last_two, SizeIs(2));
  EXPECT_EQ(last_two[1].question, request.question);
}

TEST_F(AskSessionTest, AnUnbelievableRewritingFallsBack) {
  const std::vector<Message> history = {{Message::Role::kUser, "What is a channel?"},
                                        {Message::Role::kAssistant, "A channel connects."}};
  const char* rewritings[] = {"",
                              "How many retries does a WebSocket do?",
                              "How many of 77 retries does it do?",
                              "Sure!\nHow many retries does a channel do?",
                              "多少次重试?",
                              "What colour is the sky?"};
  for (const char* rewriting : rewritings) {
    model_.replies = {rewriting};
    AskUsage usage;
    const auto q = StandaloneQuestion(RequestContext::Background(), &model_, history,
                                      "How many retries does it do?", &usage);
    ASSERT_TRUE(q.ok());
    EXPECT_EQ(*q, "What is a channel? How many retries does it do?") << rewriting;
  }
}

TEST(SessionStoreTest, RefusesForeignFiles) {
  const std::string path = ::testing::TempDir() + "/not_a_database.db";
  std::filesystem::remove(path);
  {
    FILE* f = fopen(path.c_str(), "w");
    for (int i = 0; i < 200; ++i) fputs("this is not a database ", f);
    fclose(f);
  }
  EXPECT_EQ(SessionStore::Open(path).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(SessionStore::Open("/nonexistent/dir/x.db").ok());
}

}  // namespace
}  // namespace cairn::agent
