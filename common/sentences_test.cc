#include "common/sentences.h"

#include <random>
#include <string>
#include <vector>

#include "common/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> out;
  for (const auto& [begin, end] : SplitSentences(text)) {
    out.emplace_back(text.substr(begin, end - begin));
  }
  return out;
}

TEST(SentencesTest, EnglishSentencesEndAtPeriodsFollowedByABlank) {
  EXPECT_THAT(Split("It works. Does it? Yes! \"Sure.\" Fine"),
              ElementsAre("It works.", "Does it?", "Yes!", "\"Sure.\"", "Fine"));
  EXPECT_THAT(Split("The timeout is 500ms. bthread_start() makes one."),
              ElementsAre("The timeout is 500ms.", "bthread_start() makes one."));
  EXPECT_THAT(Split("Wait... what now? \"Why?\" he asked. So **this.** Then that."),
              ElementsAre("Wait... what now?", "\"Why?\" he asked.", "So **this.**", "Then that."));
}

TEST(SentencesTest, AbbreviationsInitialsAndNumbersDoNotEndASentence) {
  EXPECT_THAT(
      Split("Dr. J. Smith of the U.S. Army paid 3.50 at example.com. See Fig. 3 of v1.2.3, e.g. "
            "Table 2. It was no. 5."),
      ElementsAre("Dr. J. Smith of the U.S. Army paid 3.50 at example.com.",
                  "See Fig. 3 of v1.2.3, e.g. Table 2.", "It was no. 5."));
  EXPECT_THAT(Split("Lists, maps, etc. are fine. Acme Inc. The end. No. Never."),
              ElementsAre("Lists, maps, etc. are fine.", "Acme Inc.", "The end.", "No.", "Never."));
}

TEST(SentencesTest, UnitsEndASentence) {
  EXPECT_THAT(Split("It waits 10 ms. then stops. Retry after 5 s. Ms. Lee agrees."),
              ElementsAre("It waits 10 ms.", "then stops.", "Retry after 5 s.", "Ms. Lee agrees."));
}

TEST(SentencesTest, ChineseSentencesEndWithoutBlanks) {
  EXPECT_THAT(Split("默认超时是500毫秒。可以改吗？可以！他说：“好。”然后走了；结束"),
              ElementsAre("默认超时是500毫秒。", "可以改吗？", "可以！", "他说：“好。”",
                          "然后走了；", "结束"));
  EXPECT_THAT(Split("使用bRPC 1.0版本。见client.md中的说明?是的!好"),
              ElementsAre("使用bRPC 1.0版本。", "见client.md中的说明?", "是的!", "好"));
}

TEST(SentencesTest, LinesJoinInAParagraphAndPartAtItemsHeadingsAndBlankLines) {
  EXPECT_THAT(Split("one line\nand more. Next\n\nAnother"),
              ElementsAre("one line\nand more.", "Next", "Another"));
  EXPECT_THAT(Split("# Title\nText here:\n- first. Still\n  first\n* second\n1. third\n2) fourth"),
              ElementsAre("# Title", "Text here:", "- first.", "Still\n  first", "* second",
                          "1. third", "2) fourth"));
  EXPECT_THAT(Split("| a | b. C |\n|---|---|\n| 1. 2 | x |\ntext"),
              ElementsAre("| a | b. C |", "|---|---|", "| 1. 2 | x |", "text"));
  EXPECT_THAT(Split("> quoted text\n> goes on. End."),
              ElementsAre("> quoted text\n> goes on.", "End."));
}

TEST(SentencesTest, CodeIsSplitByLine) {
  EXPECT_THAT(Split("Run. Then:\n```c\nint a = 1; // One. Two.\n\n# not a heading\n```\nDone. Ok."),
              ElementsAre("Run.", "Then:", "```c", "int a = 1; // One. Two.", "# not a heading",
                          "```", "Done.", "Ok."));
  EXPECT_THAT(Split("````\n```\nin. Side\n````\nout"),
              ElementsAre("````", "```", "in. Side", "````", "out"));
  EXPECT_THAT(Split("~~~\nnever closed. X"), ElementsAre("~~~", "never closed. X"));
}

TEST(SentencesTest, BlankTextHasNoSentence) {
  EXPECT_TRUE(Split("").empty());
  EXPECT_TRUE(Split(" \n\t\r\n\u3000\u00A0").empty());
  EXPECT_THAT(Split("..."), ElementsAre("..."));
}

// In order, not blank at the ends, and nothing but blanks between, for any bytes.
TEST(SentencesTest, SpansCoverEveryCharacterThatIsNotBlank) {
  const std::vector<std::string> pieces = {
      "a",  "B",    ". ",      "。",       "！",     "?", "\n",  "\n\n", "- ", "1.",
      " ",  "```",  "\n```\n", "|",        "#",      "“", "”",   "中",   "文", "e.g.",
      "\t", "    ", "\xFF",    "\xE4\xB8", "\u3000", ">", "...", "\r\n"};
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const int count = static_cast<int>(random() % 30);
    for (int i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
    std::string rebuilt;
    size_t last = 0;
    for (const auto& [begin, end] : SplitSentences(text)) {
      ASSERT_LE(last, begin);
      ASSERT_LT(begin, end);
      ASSERT_LE(end, text.size());
      const std::string gap = text.substr(last, begin - last);
      ASSERT_TRUE(SplitSentences(gap).empty()) << text;
      last = end;
    }
    ASSERT_TRUE(SplitSentences(text.substr(last)).empty()) << text;
    // Every sentence that is cut out of valid text is valid.
    if (!IsValidUtf8(text)) continue;
    for (const auto& [begin, end] : SplitSentences(text)) {
      ASSERT_TRUE(IsValidUtf8(std::string_view(text).substr(begin, end - begin)));
    }
  }
}

TEST(SentencesTest, LongTextsTakeLinearTime) {
  std::string dots, letters, fences;
  for (int i = 0; i < 1'000'000; ++i)
    dots += '.', letters += "字", fences += i % 4 == 3 ? '\n' : '`';
  EXPECT_EQ(SplitSentences(dots).size(), 1u);
  EXPECT_EQ(SplitSentences(letters).size(), 1u);
  EXPECT_EQ(SplitSentences(fences).size(), 250'000u);
}

}  // namespace
}  // namespace cairn
