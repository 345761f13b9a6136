#include "agent/ask/features.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& name : ExtractFeatures(text).names) names.push_back(name.text);
  return names;
}

std::vector<std::string> Numbers(std::string_view text) {
  std::vector<std::string> numbers;
  for (const auto& number : ExtractFeatures(text).numbers) {
    std::string forms;
    for (const auto& form : number.forms) forms += (forms.empty() ? "" : "|") + form;
    numbers.push_back(forms);
  }
  return numbers;
}

TEST(FeaturesTest, TermsAreStemsAndHanBigrams) {
  EXPECT_THAT(ExtractFeatures("The servers are retrying their requests.").terms,
              ElementsAre("server", "retri", "request"));
  EXPECT_THAT(ExtractFeatures("线程的数量").terms, ElementsAre("线程", "数量"));
  EXPECT_THAT(ExtractFeatures("bthread是什么?").terms, ElementsAre("bthread"));
  EXPECT_THAT(ExtractFeatures("").terms, IsEmpty());
  EXPECT_THAT(ExtractFeatures("\xff\xfe\x80").terms, IsEmpty());
}

TEST(FeaturesTest, NumbersAreCanonical) {
  EXPECT_THAT(Numbers("It costs 1,000.50 or 007 or 3.0 dollars."), ElementsAre("1000.5", "7", "3"));
  EXPECT_THAT(Numbers("超时是500ms，共1万次"), ElementsAre("500", "1|10000"));
  EXPECT_THAT(Numbers("1 second or 3秒"), ElementsAre("1|1000", "3|3000"));
  EXPECT_THAT(Numbers("About 2.5 million calls"), ElementsAre("2.5|2500000"));
  EXPECT_THAT(Numbers("utf8 x86_64 h2 0x1F v1.2.3 10.0.0.1"), IsEmpty());
  EXPECT_THAT(Numbers("2. The second item has 3 parts"), ElementsAre("3"));
  EXPECT_THAT(Numbers("５００毫秒"), ElementsAre("500"));  // full width
}

TEST(FeaturesTest, NumberWordsMatchDigits) {
  const Features answer = ExtractFeatures("There are 3 kinds.");
  EXPECT_TRUE(ExtractFeatures("There are three kinds.").HasNumber(answer.numbers[0]));
  EXPECT_TRUE(ExtractFeatures("有三种").HasNumber(answer.numbers[0]));
  EXPECT_FALSE(ExtractFeatures("There are two kinds.").HasNumber(answer.numbers[0]));
  EXPECT_TRUE(ExtractFeatures("10,000次").HasNumber(ExtractFeatures("1万次").numbers[0]));
}

TEST(FeaturesTest, NamesAreIdentifiersAndCapitalsInsideASentence) {
  EXPECT_THAT(Names("Use `foo` with brpc::Channel, IOBuf, max_concurrency and TCP at Baidu."),
              ElementsAre("foo", "brpc", "Channel", "IOBuf", "max_concurrency", "TCP", "Baidu"));
  EXPECT_THAT(Names("The server starts. Then it listens."), IsEmpty());
  EXPECT_THAT(Names("bthread是百度的线程库"), ElementsAre("bthread"));
  EXPECT_THAT(Names("See 10.0.0.1"), ElementsAre("10.0.0.1"));
}

TEST(FeaturesTest, NamesAreLookedUpByStem) {
  const Features answer = ExtractFeatures("It uses Channels of Baidu.");
  const Features source = ExtractFeatures("a channel at baidu");
  for (const auto& name : answer.names) EXPECT_TRUE(source.HasName(name)) << name.text;
  EXPECT_FALSE(ExtractFeatures("a socket").HasName(answer.names[0]));
}

TEST(FeaturesTest, Negation) {
  for (const char* text : {"It does not block.", "It doesn’t block.", "It never blocks.",
                           "它不会阻塞", "没有锁", "无需等待"}) {
    EXPECT_TRUE(ExtractFeatures(text).negated) << text;
  }
  for (const char* text :
       {"It blocks.", "Notes on nodes.", "两者不同", "不仅快", "无论如何都会阻塞", "未来的版本"}) {
    EXPECT_FALSE(ExtractFeatures(text).negated) << text;
  }
}

TEST(FeaturesTest, Language) {
  EXPECT_EQ(LanguageOf("bRPC 的 bvar 和 bthread 有什么区别"), "zh");
  EXPECT_EQ(LanguageOf("What does the word 雪崩 mean?"), "en");
  EXPECT_EQ(LanguageOf("12345"), "en");
}

TEST(FeaturesTest, AnswerKinds) {
  EXPECT_EQ(AnswerKindOf("How many threads are there?"), AnswerKind::kNumber);
  EXPECT_EQ(AnswerKindOf("有多少个线程"), AnswerKind::kNumber);
  EXPECT_EQ(AnswerKindOf("When was it founded?"), AnswerKind::kDate);
  EXPECT_EQ(AnswerKindOf("Who wrote it?"), AnswerKind::kPerson);
  EXPECT_EQ(AnswerKindOf("When should I use it?"), AnswerKind::kAny);
}

TEST(FeaturesTest, QuestionTermsLeaveOutQuestionWords) {
  EXPECT_THAT(QuestionTerms("What is the difference between a channel and a stub?"),
              ElementsAre("channel", "stub"));
  EXPECT_THAT(QuestionTerms("请问什么是雪崩？如何避免？"), ElementsAre("雪崩", "避免"));
  EXPECT_THAT(QuestionTerms("默认重试几次"), ElementsAre("重试", "次"));
  EXPECT_THAT(QuestionTerms("why?"), IsEmpty());
  EXPECT_EQ(CountedThing("And how many stars does it have?"), "star");
  EXPECT_EQ(CountedThing("How long?"), "");
}

TEST(FeaturesTest, Clauses) {
  EXPECT_THAT(SplitClauses("It is fast, but it is not safe; 很好，不错"),
              ElementsAre("It is fast", "but it is not safe", " 很好", "不错"));
  EXPECT_THAT(SplitClauses("1,000"), ElementsAre("1,000"));
}

}  // namespace
}  // namespace cairn::agent
