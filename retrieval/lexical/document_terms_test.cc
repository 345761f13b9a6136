#include "retrieval/lexical/document_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace cairn::retrieval {
namespace {

using testing::ElementsAre;

DocumentTerms Example() {
  const auto analyzer = Analyzer::Create();
  return AnalyzeDocument(**analyzer,
                         {{"Title", "the cat and the cat"}, {"dogs"}, {}, {"cat 北京"}});
}

TEST(DocumentTerms, CountsTermsByChunk) {
  const DocumentTerms terms = Example();
  EXPECT_THAT(terms.lengths, ElementsAre(3, 1, 0, 4));  // stop words do not count
  EXPECT_THAT(terms.terms,
              ElementsAre("b:北京", "s:and", "s:the", "u:京", "u:北", "w:cat", "w:dog", "w:titl"));
  const size_t cat = 5;
  ASSERT_EQ(terms.begins[cat + 1] - terms.begins[cat], 2u);
  EXPECT_EQ(terms.postings[terms.begins[cat]].chunk, 0u);
  EXPECT_EQ(terms.postings[terms.begins[cat]].tf, 2);
  EXPECT_EQ(terms.postings[terms.begins[cat] + 1].chunk, 3u);
}

TEST(DocumentTerms, FrequenciesSaturate) {
  std::string text;
  for (uint32_t i = 0; i < kMaxTermFrequency + 10; ++i) text += "x ";
  const auto analyzer = Analyzer::Create();
  const DocumentTerms terms = AnalyzeDocument(**analyzer, {{text}});
  EXPECT_EQ(terms.postings[0].tf, kMaxTermFrequency);
}

TEST(DocumentTerms, RoundTripsAndRefusesBrokenBytes) {
  const std::string bytes = EncodeDocumentTerms(Example());
  DocumentTerms back;
  ASSERT_TRUE(DecodeDocumentTerms(bytes, &back));
  EXPECT_EQ(EncodeDocumentTerms(back), bytes);
  EXPECT_EQ(back.terms, Example().terms);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(DecodeDocumentTerms(bytes.substr(0, cut), &back)) << cut;
  }
  // Whatever else is accepted must be well formed: postings in range, terms ascending.
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::string broken = bytes;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      broken[random() % broken.size()] = static_cast<char>(random());
    }
    if (!DecodeDocumentTerms(broken, &back)) continue;
    EXPECT_TRUE(std::is_sorted(back.terms.begin(), back.terms.end()));
    EXPECT_EQ(back.begins.back(), back.postings.size());
    for (const auto& posting : back.postings) EXPECT_LT(posting.chunk, back.lengths.size());
  }
}

}  // namespace
}  // namespace cairn::retrieval
