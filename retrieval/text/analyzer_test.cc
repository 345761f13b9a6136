#include "retrieval/text/analyzer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/brkiter.h>

#include <random>
#include <thread>

#include "common/utf8.h"
#include "retrieval/text/ascii_words.h"

namespace cairn::retrieval {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Terms(std::string_view text) {
  static const Analyzer& analyzer = *Analyzer::Create()->release();
  std::vector<std::string> out;
  analyzer.Analyze(text, [&](const Term& term) {
    EXPECT_EQ(term.stop_word, term.text.starts_with("s:"));
    out.emplace_back(term.text);
  });
  return out;
}

TEST(Analyzer, EnglishWordsAreFoldedAndStemmed) {
  EXPECT_THAT(Terms("The Running foxes' IDENTITIES"),
              ElementsAre("s:the", "w:run", "w:fox", "w:ident"));
  EXPECT_THAT(Terms("p53-mutant cells, 3.5 mg; 1,000"),
              ElementsAre("w:p53", "w:mutant", "w:cell", "w:3.5", "w:mg", "w:1,000"));
  EXPECT_THAT(Terms("bthread_start_background"),
              ElementsAre("w:bthread", "w:start", "w:background"));
}

TEST(Analyzer, PossessiveIsCutWithEitherApostrophe) {
  EXPECT_THAT(Terms("Newton's Newton\u2019s NEWTON\uFF07S"),
              ElementsAre("w:newton", "w:newton", "w:newton"));
  EXPECT_THAT(Terms("it's"), ElementsAre("s:it"));
}

TEST(Analyzer, HanGivesCharactersAndPairs) {
  EXPECT_THAT(Terms("北京大"), ElementsAre("u:北", "b:北京", "u:京", "b:京大", "u:大"));
  EXPECT_THAT(Terms("北 京。大"), ElementsAre("u:北", "u:京", "u:大"));  // no pair across a gap
  EXPECT_THAT(Terms("カタ"), ElementsAre("u:カ", "b:カタ", "u:タ"));
  EXPECT_THAT(Terms("𠀀𠀁"), ElementsAre("u:𠀀", "b:𠀀𠀁", "u:𠀁"));  // beyond the BMP
}

TEST(Analyzer, MixedTextIsTreatedByScript) {
  EXPECT_THAT(Terms("使用brpc_Server接口"), ElementsAre("u:使", "b:使用", "u:用", "w:brpc",
                                                        "w:server", "u:接", "b:接口", "u:口"));
}

TEST(Analyzer, FormsThatLookAlikeAreAlike) {
  EXPECT_EQ(Terms("ＲＯＣＫＳＤＢ　１２３"), Terms("rocksdb 123"));  // full width
  EXPECT_EQ(Terms("zero\u200Bwidth soft\u00ADhyphen"),
            Terms("zerowidth softhyphen"));  // default-ignorable
  EXPECT_EQ(Terms("\uFEFFbom"), Terms("bom"));
  EXPECT_EQ(Terms("non\u00A0breaking"), Terms("non breaking"));
  EXPECT_EQ(Terms("cafe\u0301"), Terms("CAFÉ"));
  EXPECT_EQ(Terms("ﬁle"), Terms("file"));  // ligature
  EXPECT_EQ(Terms("STRASSE"), Terms("straße"));
}

TEST(Analyzer, NothingToSearch) {
  EXPECT_THAT(Terms(""), IsEmpty());
  EXPECT_THAT(Terms(" \t\n"), IsEmpty());
  EXPECT_THAT(Terms("?!… —。，\u200B"), IsEmpty());
  EXPECT_THAT(Terms("\xFF\xFE\x80"), IsEmpty());
}

TEST(Analyzer, LongWordsAreCutAtACharacter) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "é";
  const std::vector<std::string> terms = Terms(text);
  ASSERT_EQ(terms.size(), 1u);
  EXPECT_LE(terms[0].size(), kMaxTermBytes);
  EXPECT_TRUE(IsValidUtf8(terms[0]));
}

TEST(Analyzer, AnyBytesAreSurvivedAndTermsAreBounded) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text(random() % 60, '\0');
    for (char& c : text) c = static_cast<char>(random());
    for (const std::string& term : Terms(text)) {
      EXPECT_LE(term.size(), kMaxTermBytes);
      EXPECT_TRUE(IsValidUtf8(term));
    }
  }
}

// The ASCII path against ICU's UAX #29, save for the two characters that we separate at.
TEST(AsciiWords, EqualsUnicodeWordBoundaries) {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> icu(
      icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), error));
  ASSERT_TRUE(U_SUCCESS(error));
  std::mt19937 random(11);
  const std::string alphabet = "aB9.,;'\"- /()x7";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    std::vector<std::string> ours, theirs;
    AsciiWords(text, [&](std::string_view word) { ours.emplace_back(word); });
    const icu::UnicodeString wide = icu::UnicodeString::fromUTF8(text);
    icu->setText(wide);
    for (int32_t begin = icu->first(), end = icu->next(); end != icu::BreakIterator::DONE;
         begin = end, end = icu->next()) {
      if (icu->getRuleStatus() < UBRK_WORD_NUMBER) continue;
      theirs.push_back(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    }
    ASSERT_EQ(ours, theirs) << "text: " << text;
  }
}

TEST(Analyzer, ManyThreadsAgree) {
  const auto analyzer = Analyzer::Create();
  ASSERT_TRUE(analyzer.ok());
  const auto analyze = [&] {
    std::string all;
    for (int i = 0; i < 200; ++i) {
      (*analyzer)->Analyze("Running 北京大学 naïve foxes",
                           [&](const Term& term) { all.append(term.text); });
    }
    return all;
  };
  const std::string expected = analyze();
  std::vector<std::string> got(4);
  std::vector<std::thread> threads;
  for (std::string& out : got) threads.emplace_back([&] { out = analyze(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& out : got) EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace cairn::retrieval
