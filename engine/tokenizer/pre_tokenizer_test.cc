#include "engine/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cairn::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string_view> Split(PreTokenizer kind, std::string_view text) {
  std::vector<std::string_view> words;
  SplitWords(kind, text, &words);
  return words;
}

TEST(PreTokenizerTest, Gpt2) {
  auto split = [](std::string_view text) { return Split(PreTokenizer::kGpt2, text); };
  EXPECT_THAT(split(""), IsEmpty());
  EXPECT_THAT(split("Hello, world"), ElementsAre("Hello", ",", " world"));
  EXPECT_THAT(split("I'll I'LL 's"), ElementsAre("I", "'ll", " I", "'", "LL", " '", "s"));
  EXPECT_THAT(split("a1b22"), ElementsAre("a", "1", "b", "22"));
  EXPECT_THAT(split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(split("a \n b"), ElementsAre("a", " \n", " b"));
  EXPECT_THAT(split(" \xC2\xBD!"), ElementsAre(" \xC2\xBD", "!"));
}

TEST(PreTokenizerTest, SingleDigits) {
  auto split = [](std::string_view text) { return Split(PreTokenizer::kSingleDigitsGpt2, text); };
  EXPECT_THAT(split("a 12 b"), ElementsAre("a", " ", "1", "2", " b"));
  EXPECT_THAT(split("  1"), ElementsAre("  ", "1"));  // the digit ends the text before it
}

TEST(PreTokenizerTest, Qwen2AndLlama3) {
  auto qwen2 = [](std::string_view text) { return Split(PreTokenizer::kQwen2, text); };
  EXPECT_THAT(qwen2("I'LL \xC5\xBF'\xC5\xBFx"),
              ElementsAre("I", "'LL", " \xC5\xBF", "'\xC5\xBF", "x"));
  EXPECT_THAT(qwen2("(foo)\tbar"), ElementsAre("(foo", ")", "\tbar"));
  EXPECT_THAT(qwen2("1234 5"), ElementsAre("1", "2", "3", "4", " ", "5"));
  EXPECT_THAT(qwen2(";\r\n\n  x"), ElementsAre(";\r\n\n", " ", " x"));
  EXPECT_THAT(qwen2("  \n  x"), ElementsAre("  \n", " ", " x"));
  EXPECT_THAT(qwen2(" !!\n"), ElementsAre(" !!\n"));
  EXPECT_THAT(Split(PreTokenizer::kLlama3, "1234567"), ElementsAre("123", "456", "7"));
}

TEST(PreTokenizerTest, WordsAreTheText) {
  std::mt19937 random(3);
  const std::string_view units[] = {
      "a",   " ",  "\n",           "\r",       "'",    "s",        "1",
      "!",   "\t", "\xE4\xBD\xA0", "\xCC\x81", "\xFF", "\xC2\x85", "\xF0\x9F\x98\x80",
      "\xE4"};
  for (PreTokenizer kind : {PreTokenizer::kGpt2, PreTokenizer::kSingleDigitsGpt2,
                            PreTokenizer::kQwen2, PreTokenizer::kLlama3}) {
    for (int i = 0; i < 2000; ++i) {
      std::string text, joined;
      for (int n = random() % 20; n > 0; --n) text += units[random() % std::size(units)];
      for (std::string_view word : Split(kind, text)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(PreTokenizerTest, NamesWeDoNotKnow) {
  EXPECT_EQ(PreTokenizerByName("qwen2"), PreTokenizer::kQwen2);
  EXPECT_EQ(PreTokenizerByName("default"), std::nullopt);
  EXPECT_EQ(PreTokenizerByName(""), std::nullopt);
}

}  // namespace
}  // namespace cairn::engine
