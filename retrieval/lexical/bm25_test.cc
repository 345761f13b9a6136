#include "retrieval/lexical/bm25.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "common/strings.h"

namespace cairn::retrieval {
namespace {

// A collection of segments made of random documents, some deleted, with a skewed vocabulary so that
// lists of all sizes occur, many over several blocks.
class Collection {
 public:
  Collection(uint32_t seed, std::vector<size_t> segment_sizes, double deleted) : random_(seed) {
    for (const size_t size : segment_sizes) {
      LexicalSegmentBuilder builder;
      std::vector<std::string>& ids = ids_.emplace_back();
      deleted_.emplace_back(size);
      std::vector<DocumentTerms>& documents = documents_.emplace_back();
      for (size_t i = 0; i < size; ++i) {
        documents.push_back(RandomDocument());
        builder.Add(documents.back());
        ids.push_back(StrCat(random_() % 100000, "/", ids_.size(), "/", i));
        if (std::generate_canonical<double, 32>(random_) < deleted) deleted_.back().Set(i);
      }
      segments_.push_back(builder.Build());
    }
    for (size_t s = 0; s < segments_.size(); ++s) {
      eligible_.emplace_back(segments_[s]->num_chunks());
      for (uint32_t i = 0; i < segments_[s]->num_chunks(); ++i) {
        if (deleted_[s].Get(i)) continue;
        eligible_[s].Set(i);
        ++num_chunks_;
        total_length_ += segments_[s]->length(i);
      }
    }
    for (size_t s = 0; s < segments_.size(); ++s) {
      views_.push_back({segments_[s].get(), &deleted_[s], &eligible_[s]});
    }
  }

  // The live documents in one fresh segment.
  std::unique_ptr<const LexicalSegment> Rebuild() const {
    LexicalSegmentBuilder builder;
    for (size_t s = 0; s < documents_.size(); ++s) {
      for (size_t i = 0; i < documents_[s].size(); ++i) {
        if (!deleted_[s].Get(i)) builder.Add(documents_[s][i]);
      }
    }
    return builder.Build();
  }

  std::vector<QueryTerm> RandomQuery() {
    std::map<std::string, double> terms;
    for (int i = 1 + static_cast<int>(random_() % 8); i > 0; --i) terms[RandomTerm()] += 1;
    if (random_() % 4 == 0) terms["w:absent"] = 1;
    std::vector<QueryTerm> out;
    for (const auto& [text, weight] : terms) out.push_back({text, weight});
    return out;
  }

  Bm25Query Prepare(const std::vector<QueryTerm>& terms) const {
    return PrepareBm25(terms, views_, num_chunks_, total_length_);
  }

  // The definition: every eligible chunk, every term, a full sort.
  std::vector<ScoredChunk> Exhaustive(const Bm25Query& query) const {
    std::vector<ScoredChunk> all;
    for (uint32_t s = 0; s < views_.size(); ++s) {
      for (uint32_t c = 0; c < segments_[s]->num_chunks(); ++c) {
        if (!views_[s].eligible->Get(c)) continue;
        double score = 0;
        bool any = false;
        for (const Bm25Query::Term& term : query.terms) {
          const PostingsList list = segments_[s]->Find(term.text);
          for (size_t p = 0; p < list.chunks.size(); ++p) {
            if (list.chunks[p] != c) continue;
            const double norm =
                1.2 * (1 - 0.75 + 0.75 * segments_[s]->length(c) / query.average_length);
            score += term.weight * term.idf * list.tfs[p] / (list.tfs[p] + norm);
            any = true;
          }
        }
        if (any) all.push_back({s, c, score});
      }
    }
    std::sort(all.begin(), all.end(), [&](const ScoredChunk& a, const ScoredChunk& b) {
      return a.score != b.score ? a.score > b.score
                                : ids_[a.segment][a.chunk] < ids_[b.segment][b.chunk];
    });
    return all;
  }

  ChunkIdFn id() const {
    return [this](uint32_t s, uint32_t c) { return std::string_view(ids_[s][c]); };
  }
  void Restrict(double keep) {
    for (Bitmap& bits : eligible_) {
      Bitmap fewer(bits.size());
      for (size_t i = 0; i < bits.size(); ++i) {
        if (bits.Get(i) && std::generate_canonical<double, 32>(random_) < keep) fewer.Set(i);
      }
      bits = fewer;
    }
  }

  const std::vector<LexicalView>& views() const { return views_; }
  const std::vector<Bitmap>& deleted() const { return deleted_; }
  uint64_t num_chunks() const { return num_chunks_; }
  uint64_t total_length() const { return total_length_; }

 private:
  std::string RandomTerm() {
    const double u = std::generate_canonical<double, 32>(random_);
    return StrCat("w:t", static_cast<int>(200 * u * u * u));
  }
  DocumentTerms RandomDocument() {
    std::map<std::string, uint16_t> counts;
    uint32_t length = random_() % 30;  // may be empty
    for (uint32_t i = 0; i < length; ++i) ++counts[RandomTerm()];
    DocumentTerms out;
    out.lengths = {length};
    out.begins = {0};
    for (const auto& [term, count] : counts) {
      out.terms.push_back(term);
      out.postings.push_back({0, count});
      out.begins.push_back(static_cast<uint32_t>(out.postings.size()));
    }
    return out;
  }

  std::mt19937 random_;
  std::vector<std::vector<DocumentTerms>> documents_;
  std::vector<std::unique_ptr<const LexicalSegment>> segments_;
  std::vector<std::vector<std::string>> ids_;
  std::vector<Bitmap> deleted_, eligible_;
  std::vector<LexicalView> views_;
  uint64_t num_chunks_ = 0, total_length_ = 0;
};

TEST(Bm25, PruningChangesNeitherIdsNorScores) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    Collection collection(seed, {1, 40, 1500, 700}, seed % 2 == 0 ? 0 : 0.3);
    if (seed >= 3) collection.Restrict(seed == 3 ? 0.5 : 0.02);
    for (int round = 0; round < 60; ++round) {
      const Bm25Query query = collection.Prepare(collection.RandomQuery());
      const std::vector<ScoredChunk> all = collection.Exhaustive(query);
      for (const size_t k : {1, 3, 10, 100, 5000}) {
        const std::vector<ScoredChunk> expected(all.begin(), all.begin() + std::min(k, all.size()));
        const auto found = SearchBm25(query, collection.views(), k, collection.id());
        ASSERT_EQ(found.size(), expected.size()) << "seed " << seed << " k " << k;
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i].segment, expected[i].segment);
          ASSERT_EQ(found[i].chunk, expected[i].chunk);
          ASSERT_EQ(found[i].score, expected[i].score);  // bit for bit
        }
      }
    }
  }
}

TEST(Bm25, ExplanationAddsUpToTheScore) {
  Collection collection(42, {500, 300}, 0.2);
  for (int round = 0; round < 50; ++round) {
    const Bm25Query query = collection.Prepare(collection.RandomQuery());
    for (const ScoredChunk& hit : SearchBm25(query, collection.views(), 20, collection.id())) {
      double sum = 0;
      for (const TermExplanation& term :
           ExplainBm25(query, collection.views()[hit.segment], hit.chunk)) {
        EXPECT_EQ(term.contribution,
                  term.query_weight * term.idf * term.tf / (term.tf + term.norm));
        sum += term.contribution;
      }
      EXPECT_EQ(sum, hit.score);
    }
  }
}

// Statistics with tombstones, those of a rebuild, and those of a merge are the same.
TEST(Bm25, DeletedChunksLeaveNoTrace) {
  for (uint32_t seed = 10; seed < 14; ++seed) {
    Collection collection(seed, {300, 50, 200}, 0.4);
    const std::unique_ptr<const LexicalSegment> rebuilt = collection.Rebuild();
    std::vector<LexicalSegmentBuilder::Source> sources;
    for (size_t s = 0; s < collection.views().size(); ++s) {
      sources.push_back({collection.views()[s].segment, &collection.deleted()[s]});
    }
    const std::unique_ptr<const LexicalSegment> merged = LexicalSegmentBuilder::Merge(sources);
    ASSERT_EQ(merged->num_terms(), rebuilt->num_terms());
    ASSERT_EQ(merged->num_chunks(), rebuilt->num_chunks());
    for (uint32_t t = 0; t < merged->num_terms(); ++t) {
      ASSERT_EQ(merged->term(t), rebuilt->term(t));
      const PostingsList a = merged->postings(t), b = rebuilt->postings(t);
      ASSERT_TRUE(std::equal(a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end()));
      ASSERT_TRUE(std::equal(a.tfs.begin(), a.tfs.end(), b.tfs.begin(), b.tfs.end()));
      ASSERT_EQ(a.blocks.size(), b.blocks.size());
    }
    const LexicalView view{rebuilt.get()};
    for (int round = 0; round < 40; ++round) {
      const auto terms = collection.RandomQuery();
      const Bm25Query with = collection.Prepare(terms);
      const Bm25Query without =
          PrepareBm25(terms, {&view, 1}, collection.num_chunks(), collection.total_length());
      ASSERT_EQ(with.terms.size(), without.terms.size());
      for (size_t i = 0; i < with.terms.size(); ++i) {
        EXPECT_EQ(with.terms[i].df, without.terms[i].df);
        EXPECT_EQ(with.terms[i].idf, without.terms[i].idf);
      }
    }
  }
}

// Small collections and terms in every chunk: scores stay positive.
TEST(Bm25, IdfIsPositive) {
  for (const size_t n : {1, 2, 5}) {
    LexicalSegmentBuilder builder;
    for (size_t i = 0; i < n; ++i) builder.Add({{1}, {"w:a"}, {0, 1}, {{0, 1}}});
    const auto segment = builder.Build();
    const LexicalView view{segment.get()};
    const Bm25Query query = PrepareBm25({{"w:a", 1}}, {&view, 1}, n, n);
    ASSERT_EQ(query.terms.size(), 1u);
    EXPECT_GT(query.terms[0].idf, 0);
    EXPECT_DOUBLE_EQ(query.terms[0].idf, std::log(1 + 0.5 / (static_cast<double>(n) + 0.5)));
  }
}

TEST(Bm25, EmptyCollectionAndChunksOfStopWords) {
  EXPECT_TRUE(PrepareBm25({{"w:a", 1}}, {}, 0, 0).terms.empty());
  LexicalSegmentBuilder builder;
  builder.Add({{0}, {"s:the"}, {0, 1}, {{0, 2}}});  // length 0
  const auto segment = builder.Build();
  const LexicalView view{segment.get()};
  const Bm25Query query = PrepareBm25({{"s:the", 1}}, {&view, 1}, 1, 0);
  const auto hits =
      SearchBm25(query, {&view, 1}, 3, [](uint32_t, uint32_t) { return std::string_view("x"); });
  ASSERT_EQ(hits.size(), 1u);
  EXPECT_TRUE(std::isfinite(hits[0].score));
  EXPECT_GT(hits[0].score, 0);
}

TEST(AnalyzeQuery, FallsBackToStopWordsOnlyWhenThereIsNothingElse) {
  const auto analyzer = Analyzer::Create();
  const AnalyzedQuery mixed = AnalyzeQuery(**analyzer, "to be or not to be a cat cat");
  EXPECT_FALSE(mixed.stop_words_only);
  ASSERT_EQ(mixed.terms.size(), 1u);
  EXPECT_EQ(mixed.terms[0].text, "w:cat");
  EXPECT_EQ(mixed.terms[0].weight, 2);
  const AnalyzedQuery stop = AnalyzeQuery(**analyzer, "to be or not to be");
  EXPECT_TRUE(stop.stop_words_only);
  EXPECT_EQ(stop.terms.size(), 4u);
  EXPECT_TRUE(AnalyzeQuery(**analyzer, "?!").terms.empty());
  // "being" has the stem of a stop word and is none.
  EXPECT_FALSE(AnalyzeQuery(**analyzer, "being").stop_words_only);
}

// Neither a question word nor a pair of characters that one has a part in is searched, as long as
// another word is.
TEST(AnalyzeQuery, LeavesOutQuestionWords) {
  const auto analyzer = Analyzer::Create();
  const auto terms = [&](std::string_view text) {
    std::vector<std::string> out;
    for (const QueryTerm& term : AnalyzeQuery(**analyzer, text).terms) out.push_back(term.text);
    return out;
  };
  using testing::ElementsAre;
  EXPECT_THAT(terms("bthread 是什么？"), ElementsAre("w:bthread"));
  EXPECT_THAT(terms("进程如何切换呢"),
              ElementsAre("u:进", "b:进程", "u:程", "u:切", "b:切换", "u:换"));
  EXPECT_THAT(terms("How does a butex wake?"), ElementsAre("w:butex", "w:wake"));
  EXPECT_THAT(AnalyzeQuery(**analyzer, "how does bvar").question_words, ElementsAre("how", "does"));

  // Nothing else: they are what is asked for.
  EXPECT_THAT(terms("what is it"), ElementsAre("w:what"));
  EXPECT_THAT(terms("什么"), ElementsAre("u:什", "b:什么", "u:么"));
  EXPECT_TRUE(AnalyzeQuery(**analyzer, "what is it").question_words.empty());
}

}  // namespace
}  // namespace cairn::retrieval
