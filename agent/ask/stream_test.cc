// MarkerFilter and SentenceStream: what they do, and that the way a text is cut into deltas does
// not matter.
#include <ctime>
#include <random>

#include "agent/ask/marker_filter.h"
#include "agent/ask/sentence_stream.h"
#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Filters `text`, given in pieces of `size` bytes (0: all at once); markers as "position:number".
std::string Filter(std::string_view text, size_t size,
                   std::vector<std::string>* markers = nullptr) {
  MarkerFilter filter;
  std::string out;
  if (size == 0) size = std::max<size_t>(text.size(), 1);
  for (size_t i = 0; i < text.size(); i += size) out += filter.Feed(text.substr(i, size));
  out += filter.Finish();
  if (markers != nullptr) {
    for (const auto& m : filter.markers()) markers->push_back(StrCat(m.position, ":", m.number));
  }
  return out;
}

struct FilterCase {
  const char* text;
  const char* clean;
  std::vector<std::string> markers;
};

TEST(MarkerFilterTest, TakesMarkersOutHoweverTheTextArrives) {
  const FilterCase cases[] = {
      {"It is fast [1].", "It is fast.", {"10:1"}},
      {"[2] It is fast. [3] It is safe.", "It is fast. It is safe.", {"0:2", "11:3"}},
      {"One [1][2] two", "One two", {"3:1", "3:2"}},
      {"One [1, 3] two [999]", "One two", {"3:1", "3:3", "7:999"}},
      {"快【2】。很好[1，2]。", "快。很好。", {"3:2", "12:1", "12:2"}},
      {"See [^4] and [text] and [](x) and []", "See and [text] and [](x) and []", {"3:4"}},
      {"[1](http://evil)", "(http://evil)", {"0:1"}},
      {"`a[1]` and a[1]", "`a[1]` and a", {"12:1"}},
      {"[[1]]", "[]", {"1:1"}},
      {"[1", "[1", {}},
      {"[12345678901234567890]", "[12345678901234567890]", {}},
      {"[1 2] [-1] [1.5]", "[-1] [1.5]", {"0:1", "0:2"}},
      {"line [1]\n[2] next", "line\nnext", {"4:1", "5:2"}},
      {"a  b [x] \xE3\x80", "a  b [x] \xE3\x80", {}},
      {"", "", {}},
  };
  for (const FilterCase& c : cases) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{7}}) {
      std::vector<std::string> markers;
      EXPECT_EQ(Filter(c.text, size, &markers), c.clean) << c.text << " by " << size;
      EXPECT_EQ(markers, c.markers) << c.text << " by " << size;
    }
  }
}

TEST(MarkerFilterTest, RandomTextByOneByteEqualsWhole) {
  std::mt19937 random(7);
  const std::string_view alphabet[] = {"[",  "]", "1",  "23", ",",  " ",  "a", ".",
                                       "\n", "`", "【", "】", "，", "好", "^"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += alphabet[random() % std::size(alphabet)];
    std::vector<std::string> whole, bytes;
    EXPECT_EQ(Filter(text, 0, &whole), Filter(text, 1, &bytes)) << text;
    EXPECT_EQ(whole, bytes) << text;
  }
}

TEST(MarkerFilterTest, FiftyThousandDigitsAreQuick) {
  const std::string text = "[" + std::string(50000, '1') + " [" + std::string(50000, '[');
  const std::clock_t begin = std::clock();  // of this process: other load does not count
  EXPECT_EQ(Filter(text, 1), text);
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);  // a quadratic scan would take minutes
}

std::vector<SentenceStream::Piece> Cut(std::string_view text, size_t size) {
  SentenceStream stream;
  std::vector<SentenceStream::Piece> pieces;
  const auto take = [&](std::vector<SentenceStream::Piece> more) {
    for (auto& piece : more) pieces.push_back(std::move(piece));
  };
  if (size == 0) size = std::max<size_t>(text.size(), 1);
  for (size_t i = 0; i < text.size(); i += size) take(stream.Feed(text.substr(i, size)));
  take(stream.Finish());
  return pieces;
}

std::vector<std::string> Sentences(std::string_view text, size_t size) {
  std::vector<std::string> sentences;
  for (const auto& piece : Cut(text, size)) sentences.push_back(piece.sentence);
  return sentences;
}

TEST(SentenceStreamTest, SentencesInBothLanguages) {
  EXPECT_THAT(Sentences("It works. Does it? Version 1.2 does.", 1),
              ElementsAre("It works.", "Does it?", "Version 1.2 does."));
  EXPECT_THAT(Sentences("它很快。它也很安全！真的吗？是", 1),
              ElementsAre("它很快。", "它也很安全！", "真的吗？", "是"));
  EXPECT_THAT(Sentences("Use these:\n\n- one thing\n- another thing\n", 1),
              ElementsAre("Use these:", "- one thing", "- another thing"));
  EXPECT_THAT(
      Sentences("Code:\n\n```cpp\nint a = 1; // x. Y\nint b;\n```\n\nDone. Yes.", 1),
      ElementsAre("Code:", "```cpp", "int a = 1; // x. Y", "int b;", "```", "Done.", "Yes."));
  EXPECT_THAT(Sentences("  \n ", 1), IsEmpty());
}

TEST(SentenceStreamTest, ASentenceComesOutWithTheFirstCharacterBehindIt) {
  SentenceStream stream;
  EXPECT_THAT(stream.Feed("It works."), IsEmpty());
  EXPECT_THAT(stream.Feed(" "), IsEmpty());
  EXPECT_EQ(stream.Feed("D").size(), 1u);
}

TEST(SentenceStreamTest, RandomTextIsKeptAndCutTheSameHoweverItArrives) {
  std::mt19937 random(11);
  const std::string_view alphabet[] = {"word", " ",           ". ",  "。",   "\n", "\n\n",
                                       "- ",   "```\n",       "1. ", "好的", "！", "”",
                                       "e.g.", "| a | b |\n", "A",   "\xC3"};
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += alphabet[random() % std::size(alphabet)];
    const auto whole = Cut(text, 0);
    for (const size_t size : {1, 3}) {
      const auto pieces = Cut(text, size);
      ASSERT_EQ(pieces.size(), whole.size());
      std::string joined;
      for (size_t i = 0; i < pieces.size(); ++i) {
        EXPECT_EQ(pieces[i].sentence, whole[i].sentence);
        joined += pieces[i].blanks;
        EXPECT_EQ(joined.size(), pieces[i].begin);
        joined += pieces[i].sentence;
        EXPECT_EQ(joined.size(), pieces[i].end);
      }
      EXPECT_EQ(joined, text.substr(0, joined.size()));
      EXPECT_EQ(text.substr(joined.size()).find_first_not_of(" \n"), std::string::npos);
    }
  }
}

TEST(SentenceStreamTest, LongTextWithoutBoundaryIsQuick) {
  std::string han;
  for (int i = 0; i < 20000; ++i) han += "好";
  const std::clock_t begin = std::clock();  // of this process: other load does not count
  EXPECT_EQ(Cut(std::string(50000, '1'), 1).size(), 1u);
  EXPECT_EQ(Cut(han, 1).size(), 1u);
  EXPECT_LT(std::clock() - begin, 2 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace cairn::agent
