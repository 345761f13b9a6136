#include "retrieval/text/question_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::retrieval {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Words(std::string_view query) { return SplitQuestionWords(query).words; }
std::string Rest(std::string_view query) { return SplitQuestionWords(query).rest; }

TEST(QuestionWords, EnglishWordsStandAlone) {
  EXPECT_EQ(Rest("What does bvar do?"), "    bvar  ?");
  EXPECT_THAT(Words("What's it? WHO and how"), ElementsAre("What's", "how"));
  EXPECT_THAT(Words("Who\u2019s he"), ElementsAre("Who\u2019s"));
  EXPECT_THAT(Words("know-how whatever do_not who've café_how Éwho shows"), IsEmpty());
}

TEST(QuestionWords, AcronymsAreNoQuestionWords) {
  EXPECT_THAT(Words("What does the WHO say about DO?"), ElementsAre("What", "does"));
  EXPECT_THAT(Words("WHAT IS BTHREAD"), ElementsAre("WHAT"));  // all of it is written so
}

TEST(QuestionWords, TheLongestChinesePhraseCounts) {
  EXPECT_THAT(Words("bthread 是什么？"), ElementsAre("是什么"));
  EXPECT_EQ(Rest("bthread是什么？"), "bthread ？");
  EXPECT_THAT(Words("bvar 是什么意思"), ElementsAre("是什么意思"));
  EXPECT_THAT(Words("什么是雪崩?如何避免?"), ElementsAre("什么是", "如何"));
  EXPECT_EQ(Rest("请问什么时候发布"), "  发布");
  EXPECT_THAT(Words("為什麼會這樣呢？"), ElementsAre("為什麼", "呢"));
  EXPECT_THAT(Words("支持哪些算法，有几种"), ElementsAre("哪些", "几种"));
}

TEST(QuestionWords, ChineseWordsThatHoldTheirCharactersStay) {
  for (const char* query : {"几何", "任何时候", "哪吒", "吗啡", "呢绒", "申请问题", "许多少数民族",
                            "茶几", "几乎", "。、！"}) {
    EXPECT_THAT(Words(query), IsEmpty()) << query;
    EXPECT_EQ(Rest(query), query);
  }
}

TEST(QuestionWords, WhateverIsNotAQuestionWordIsKeptByteForByte) {
  for (const char* query : {"", "a\xFF\xC3", "日本語カタ", "𠀀𠀁?", "\xE4\xBB"}) {
    EXPECT_EQ(Rest(query), query);
  }
}

}  // namespace
}  // namespace cairn::retrieval
