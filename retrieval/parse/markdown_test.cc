#include <ctime>
#include <string>
#include <vector>

#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retrieval/parse/parse.h"
#include "retrieval/parse/parse_test_util.h"

namespace cairn::retrieval {
namespace {

using ::testing::ElementsAre;

// "H1:text", "P:text", "L:", "C:", "T:", "O:" for each block.
std::vector<std::string> Blocks(std::string_view source, std::string* title = nullptr) {
  const auto parsed = ParseDocument(source, "text/markdown");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::string> out;
  if (!parsed.ok()) return out;
  CheckDocument(*parsed, source);
  if (title != nullptr) *title = parsed->title;
  for (const Block& block : parsed->blocks) {
    const std::string text = parsed->text.substr(block.text.begin, block.text.size());
    switch (block.kind) {
      case BlockKind::kHeading:
        out.push_back(StrCat("H", block.level, ":", block.heading));
        break;
      case BlockKind::kParagraph:
        out.push_back("P:" + text);
        break;
      case BlockKind::kListItem:
        out.push_back("L:" + text);
        break;
      case BlockKind::kCode:
        out.push_back("C:" + text);
        break;
      case BlockKind::kTable:
        out.push_back("T(" + block.table_header + "):" + text);
        break;
      case BlockKind::kOther:
        out.push_back("O:" + text);
        break;
    }
  }
  return out;
}

TEST(MarkdownTest, HeadingsHaveLevelsAndPlainWords) {
  EXPECT_THAT(
      Blocks("# One\n## *Two* `code` [link](u) ##\nThree\n=====\nFour\n---\n####### no\n#no"),
      ElementsAre("H1:One", "H2:Two code link", "H1:Three", "H2:Four", "P:####### no\n#no"));
  EXPECT_THAT(Blocks("# C# and F#\n#  \n### 默认 `超时` &amp; more"),
              ElementsAre("H1:C# and F#", "H1:", "H3:默认 超时 & more"));
}

TEST(MarkdownTest, HeadingsInQuotesAndListsDoNotDivideTheDocument) {
  EXPECT_THAT(Blocks("> # quoted\n\n- # item"), ElementsAre("P:> # quoted", "P:- # item"));
}

TEST(MarkdownTest, FencesHoldTheirContent) {
  struct Case {
    const char* source;
    std::vector<std::string> blocks;
  };
  const Case cases[] = {
      {"```\n# no heading\n```\nafter", {"C:```\n# no heading\n```", "P:after"}},
      {"````md\n```\n# in\n```\n````\n# out", {"C:````md\n```\n# in\n```\n````", "H1:out"}},
      {"~~~\n```\n# in\n~~~\n# out", {"C:~~~\n```\n# in\n~~~", "H1:out"}},
      {"```\nnever closed\n# in\n\n# in", {"C:```\nnever closed\n# in\n\n# in"}},
      {"```\n``` not a close\n# in\n```\n# out", {"C:```\n``` not a close\n# in\n```", "H1:out"}},
      {"- item\n  ```\n  # in\n  ```\n\n# out", {"L:- item", "C:  ```\n  # in\n  ```", "H1:out"}},
      {"> ```\n> # in\n\n# out", {"C:> ```\n> # in", "H1:out"}},
      {"   ```\n# in\n   ```\n# out", {"C:   ```\n# in\n   ```", "H1:out"}},
      {"text\n\n    # indented\n\n# out", {"P:text", "C:    # indented", "H1:out"}},
      {"```a`b```\n# out", {"P:```a`b```", "H1:out"}},
      {"```\n\n```\n# out", {"C:```\n\n```", "H1:out"}},
      {"<pre>\n# in\n</pre>\n\n# out", {"O:<pre>\n# in\n</pre>", "H1:out"}},
      {"<!--\n# in\n-->\n# out", {"O:<!--\n# in\n-->", "H1:out"}},
  };
  for (const Case& c : cases) EXPECT_EQ(Blocks(c.source), c.blocks) << c.source;
}

TEST(MarkdownTest, ListsAndParagraphs) {
  EXPECT_THAT(Blocks("para\nof two\n\n- a\n- b\n  more\n  - c\n\n    second\n1. d\n\nend"),
              ElementsAre("P:para\nof two", "L:- a", "L:- b\n  more", "L:  - c", "L:    second",
                          "L:1. d", "P:end"));
}

TEST(MarkdownTest, TablesKeepTheirHeader) {
  EXPECT_THAT(
      Blocks("intro:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nend"),
      ElementsAre("P:intro:", "T(a | b):| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", "P:end"));
  EXPECT_THAT(Blocks("名称 | 值\n--- | ---\n超时 | 500"),
              ElementsAre("T(名称 | 值):名称 | 值\n--- | ---\n超时 | 500"));
}

TEST(MarkdownTest, NothingIsLostAroundATableInAParagraph) {
  EXPECT_THAT(Blocks("text\n| a | b |\n|---|---|\n| 1 | 2 |\n# out").back(), "H1:out");
}

TEST(MarkdownTest, LinkDefinitionsStayInTheText) {
  EXPECT_THAT(Blocks("See [a].\n\n[a]: http://x\n[b]: http://y\n\n# h"),
              ElementsAre("P:See [a].", "P:[a]: http://x\n[b]: http://y", "H1:h"));
}

TEST(MarkdownTest, FrontMatterGivesTheTitleAndNoText) {
  std::string title;
  EXPECT_THAT(Blocks("---\ntitle: \"The: Title\"\ntags:\n  - x\n---\n# Head\ntext", &title),
              ElementsAre("H1:Head", "P:text"));
  EXPECT_EQ(title, "The: Title");
  EXPECT_THAT(Blocks("---\nnot front matter\n---\n# Head", &title),
              ElementsAre("O:---", "H2:not front matter", "H1:Head"));
  EXPECT_EQ(title, "Head");
  EXPECT_THAT(Blocks("---\nkey: never closed\n\ntext"),
              ElementsAre("O:---", "P:key: never closed", "P:text"));
}

TEST(MarkdownTest, TheTitleIsTheFirstTopHeading) {
  std::string title;
  Blocks("## first\n# top\n# next", &title);
  EXPECT_EQ(title, "top");
  Blocks("### only\ntext", &title);
  EXPECT_EQ(title, "only");
  Blocks("no heading", &title);
  EXPECT_EQ(title, "");
}

TEST(MarkdownTest, LineEndingsOfEverySystem) {
  EXPECT_THAT(Blocks("# a\r\n\r\ntext\r\nmore\r\n"), ElementsAre("H1:a", "P:text\r\nmore"));
  EXPECT_THAT(Blocks("# a\rtext\r\r# b"), ElementsAre("H1:a", "P:text", "H1:b"));
}

// Inputs on which cmark-gfm 0.29.0.gfm.6 takes quadratic time by itself: 28 s for the first at this
// size.
TEST(MarkdownTest, HostileInputTakesLinearTime) {
  auto repeat = [](std::string_view piece, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += piece;
    return out;
  };
  for (const char* piece :
       {"![[]()", "<![CDATA[a ", "<?a ",      "<!A a ",      "[a](",    "*a **a ",
        "`x``",   "a|",          "&",         "\\",          "_a __b ", "<a href=\"",
        "]",      "a  \n",       "|x\n",      "- a\n",       "a\n=\n",  "[a]: u\n",
        "```\n",  "<div>\n\n",   "  * x\n\n", "| a |\n|-|\n"}) {
    const std::string source = repeat(piece, 80000);
    const std::clock_t start = std::clock();
    const auto parsed = ParseDocument(source, "text/markdown");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    // Processor time, not the clock's; 0.1 s without sanitizers.
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5) << piece;
  }
  for (const char* piece : {">", "- ", "1. ", "> - "}) {
    const std::string deep = repeat(piece, 100'000) + "x" + std::string(100'000, '\n');
    EXPECT_EQ(ReasonOf(ParseDocument(deep, "text/markdown").status()), kReasonTooDeep) << piece;
  }
}

}  // namespace
}  // namespace cairn::retrieval
