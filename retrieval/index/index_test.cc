#include "retrieval/index/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "common/utf8.h"
#include "retrieval/index/index_test_util.h"
#include "retrieval/store/records.h"
#include "retrieval/store/store.h"

namespace cairn::retrieval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const RequestContext kContext = RequestContext::Background();

class FakeReranker : public Reranker {
 public:
  absl::StatusOr<std::vector<float>> Score(const RequestContext&, std::string_view query,
                                           std::span<const std::string_view> passages) override {
    if (!failure.ok()) return failure;
    std::vector<float> out;
    for (const std::string_view passage : passages) {
      seen.emplace_back(passage);
      out.push_back(passage.find("gold") != std::string_view::npos ? 5.0f : -5.0f);
    }
    if (drop_one) out.pop_back();
    (void)query;
    return out;
  }
  bool Supports(std::string_view language) const override { return language == "en"; }

  absl::Status failure;
  bool drop_one = false;
  std::vector<std::string> seen;
};

class IndexTest : public testing::Test {
 protected:
  void SetUp() override {
    Reopen();
    ASSERT_TRUE(index_->CreateCollection(LexicalCollection("docs")).ok());
    CollectionConfig vectors = LexicalCollection("vec");
    vectors.embedder = *embedder_.Info(kContext);
    ASSERT_TRUE(index_->CreateCollection(vectors).ok());
  }
  void Reopen() {
    index_.reset();
    index_ = OpenIndex(temp_.path());
    ASSERT_NE(index_, nullptr);
  }
  DocumentInfo Commit(const DocumentVersion& document) {
    const auto info = index_->Commit(kContext, document);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : DocumentInfo();
  }
  SearchResult Search(const SearchQuery& query, Embedder* embedder = nullptr,
                      Reranker* reranker = nullptr) {
    auto result = index_->Search(kContext, query, embedder, reranker);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : SearchResult();
  }
  static SearchQuery Lexical(std::string_view text) {
    SearchQuery query;
    query.collection = "docs";
    query.text = text;
    query.mode = SearchMode::kLexical;
    return query;
  }
  static SearchQuery Hybrid(std::string_view text) {
    SearchQuery query;
    query.collection = "vec";
    query.text = text;
    return query;
  }
  static std::vector<std::string> Ids(const SearchResult& result) {
    std::vector<std::string> out;
    for (const SearchHit& hit : result.hits) out.push_back(hit.chunk.chunk_id);
    return out;
  }
  void ExpectSound() {
    const auto report = index_->Verify(kContext);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, IsEmpty());
  }

  TempDir temp_;
  FakeEmbedder embedder_{8};
  std::unique_ptr<Index> index_;
};

TEST_F(IndexTest, ADocumentIsFoundReadAndDeleted) {
  const DocumentVersion document = MakeDocument("docs", "a.txt", {"the quick fox", "a lazy dog"});
  const DocumentInfo info = Commit(document);
  EXPECT_EQ(info.version, 1u);
  EXPECT_EQ(info.num_chunks, 2u);
  EXPECT_EQ(info.source_bytes, document.source.size());

  const SearchResult result = Search(Lexical("foxes"));
  ASSERT_THAT(Ids(result), ElementsAre("a.txt#0"));
  EXPECT_EQ(result.score_kind, ScoreKind::kBm25);
  EXPECT_EQ(result.hits[0].chunk.text, "the quick fox");
  EXPECT_EQ(result.hits[0].chunk.version, 1u);
  EXPECT_EQ(result.hits[0].document.document_id, "a.txt");
  EXPECT_EQ(*index_->ReadSource(kContext, "docs", "a.txt", 1, result.hits[0].chunk.span),
            "the quick fox");
  EXPECT_EQ(index_->GetChunk(kContext, "docs", "a.txt#1")->text, "a lazy dog");
  EXPECT_EQ(index_->GetChunks(kContext, "docs", "a.txt")->size(), 2u);
  ExpectSound();

  EXPECT_EQ(*index_->Delete(kContext, "docs", "a.txt"), 1);
  EXPECT_EQ(*index_->Delete(kContext, "docs", "a.txt"), 0);
  EXPECT_THAT(Ids(Search(Lexical("foxes"))), IsEmpty());
  EXPECT_EQ(ReasonOf(index_->Find(kContext, "docs", "a.txt").status()), "DOCUMENT_NOT_FOUND");
  EXPECT_EQ(ReasonOf(index_->GetChunk(kContext, "docs", "a.txt#0").status()), "CHUNK_NOT_FOUND");
  EXPECT_EQ(index_->Stats().num_chunks, 0u);
  ExpectSound();

  // Put again, it is a new version: an old citation must not point at other bytes.
  EXPECT_EQ(Commit(MakeDocument("docs", "a.txt", {"another fox"})).version, 2u);
  EXPECT_EQ(ReasonOf(index_->ReadSource(kContext, "docs", "a.txt", 1, {0, 3}).status()),
            "VERSION_RETIRED");
  EXPECT_EQ(*index_->Delete(kContext, "docs", "a.txt"), 1);
  Reopen();
  EXPECT_EQ(Commit(document).version, 3u);
  ExpectSound();
}

TEST_F(IndexTest, TheSameAgainIsNoChangeAndAChangeIsANewVersion) {
  DocumentVersion document = MakeDocument("docs", "a", {"alpha", "beta"}, {{"k", int64_t{1}}});
  const DocumentInfo first = Commit(document);
  for (int i = 0; i < 3; ++i) {
    const DocumentInfo again = Commit(document);
    EXPECT_EQ(again.version, 1u);
    EXPECT_EQ(again.committed_at, first.committed_at);
  }
  EXPECT_EQ(index_->Stats().num_chunks, 2u);

  document.info.metadata["k"] = int64_t{2};  // metadata alone: the chunk ids stay
  EXPECT_EQ(Commit(document).version, 2u);
  const DocumentVersion changed = MakeDocument("docs", "a", {"gamma"}, {{"k", int64_t{2}}});
  EXPECT_EQ(Commit(changed).version, 3u);
  EXPECT_THAT(Ids(Search(Lexical("alpha beta"))), IsEmpty());
  EXPECT_THAT(Ids(Search(Lexical("gamma"))), ElementsAre("a#0"));
  EXPECT_EQ(ReasonOf(index_->ReadSource(kContext, "docs", "a", 1, {0, 1}).status()),
            "VERSION_RETIRED");
  EXPECT_EQ(*index_->ReadSource(kContext, "docs", "a", 0, {0, 5}), "gamma");
  EXPECT_EQ(index_->Stats().num_documents, 1u);
  ExpectSound();
  Reopen();
  EXPECT_EQ(index_->Find(kContext, "docs", "a")->version, 3u);
  EXPECT_THAT(Ids(Search(Lexical("gamma"))), ElementsAre("a#0"));
  ExpectSound();
}

TEST_F(IndexTest, TheSameBytesChunkedOtherwiseAreANewVersion) {
  DocumentVersion document = MakeDocument("docs", "a", {"alpha", "beta"});
  Commit(document);
  document.info.chunk_tokens = 64;
  EXPECT_EQ(Commit(document).version, 2u);
  Reopen();
  EXPECT_EQ(index_->Find(kContext, "docs", "a")->chunk_tokens, 64u);
  EXPECT_EQ(Commit(document).version, 2u);
  document.info.chunk_tokens = 0;
  EXPECT_EQ(Commit(document).version, 3u);
  ExpectSound();
}

TEST_F(IndexTest, DocumentsWithoutChunksAndLargeSources) {
  DocumentVersion empty = MakeDocument("docs", "empty", {});
  EXPECT_EQ(Commit(empty).num_chunks, 0u);
  const std::string line(1000, 'x');
  const DocumentVersion large = MakeDocument("docs", "large", std::vector<std::string>(700, line));
  Commit(large);
  ASSERT_GT(large.source.size(), 5 * kSourceBlockBytes);
  const uint64_t edge = kSourceBlockBytes;
  for (const Span span : {Span{0, large.source.size()}, Span{edge - 1, edge + 1}, Span{edge, edge},
                          Span{edge, 2 * edge}, Span{5 * edge - 7, large.source.size()}}) {
    EXPECT_EQ(*index_->ReadSource(kContext, "docs", "large", 1, span),
              large.source.substr(span.begin, span.size()));
  }
  EXPECT_EQ(
      FieldOf(
          index_->ReadSource(kContext, "docs", "large", 1, {0, large.source.size() + 1}).status()),
      "span");
  EXPECT_EQ(FieldOf(index_->ReadSource(kContext, "docs", "large", 1, {5, 4}).status()), "span");
  ExpectSound();
  EXPECT_EQ(*index_->Delete(kContext, "docs", "large"), 1);
  EXPECT_EQ(*index_->Delete(kContext, "docs", "empty"), 1);
  ExpectSound();
}

TEST_F(IndexTest, CollectionsAreSeparateAndDeletedWhole) {
  ASSERT_TRUE(index_->CreateCollection(LexicalCollection("other")).ok());
  Commit(MakeDocument("docs", "a", {"alpha"}));
  Commit(MakeDocument("other", "a", {"alpha two"}));
  EXPECT_EQ(ReasonOf(index_->CreateCollection(LexicalCollection("docs")).status()),
            "COLLECTION_EXISTS");
  EXPECT_EQ(Search(Lexical("alpha")).hits[0].chunk.text, "alpha");
  ASSERT_TRUE(index_->DeleteCollection("docs").ok());
  EXPECT_EQ(ReasonOf(index_->DeleteCollection("docs")), "COLLECTION_NOT_FOUND");
  EXPECT_EQ(ReasonOf(index_->Find(kContext, "docs", "a").status()), "COLLECTION_NOT_FOUND");
  EXPECT_EQ(index_->GetCollection("other")->num_documents, 1u);
  ExpectSound();
  ASSERT_TRUE(index_->CreateCollection(LexicalCollection("docs")).ok());
  EXPECT_THAT(Ids(Search(Lexical("alpha"))), IsEmpty());
  ASSERT_TRUE(index_->DeleteCollection("docs").ok());
  Reopen();
  std::vector<std::string> names;
  for (const CollectionInfo& info : index_->ListCollections()) names.push_back(info.config.name);
  EXPECT_THAT(names, ElementsAre("other", "vec"));
  ExpectSound();
}

TEST_F(IndexTest, SaysWhichCollectionsKeepVectors) {
  EXPECT_TRUE(*index_->KeepsVectors(kContext, "vec"));
  EXPECT_FALSE(*index_->KeepsVectors(kContext, "docs"));
  EXPECT_TRUE(*index_->KeepsVectors(kContext, "not-yet"));
  EXPECT_FALSE(index_->KeepsVectors(kContext, "Bad Name").ok());
}

TEST_F(IndexTest, PagesPutTogetherAreTheWholeList) {
  std::vector<std::string> expected;
  for (int i = 0; i < 23; ++i) {
    const std::string id = StrCat("d", i, i % 2 ? "é" : "文");
    Commit(MakeDocument("docs", id, {"text"}, {{"odd", i % 2 == 1}}));
    expected.push_back(id);
  }
  std::sort(expected.begin(), expected.end());
  for (const int size : {1, 7, 23, 24}) {
    std::vector<std::string> found;
    std::string token;
    do {
      const auto page = index_->ListDocuments(kContext, "docs", token, size, {});
      ASSERT_TRUE(page.ok()) << page.status();
      for (const DocumentInfo& info : page->documents) found.push_back(info.document_id);
      token = page->next_page_token;
    } while (!token.empty());
    EXPECT_EQ(found, expected);
  }
  const Filter odd = {{"odd", Condition::Op::kEquals, {true}, {}, {}}};
  EXPECT_EQ(index_->ListDocuments(kContext, "docs", "", 1000, odd)->documents.size(), 11u);
  EXPECT_FALSE(index_->ListDocuments(kContext, "docs", "", 0, {}).ok());
  EXPECT_FALSE(index_->ListDocuments(kContext, "docs", "", 1001, {}).ok());
  EXPECT_FALSE(index_->ListDocuments(kContext, "docs", "\x01", 10, {}).ok());
  const Filter language = {{"language", Condition::Op::kEquals, {std::string("en")}, {}, {}}};
  EXPECT_FALSE(index_->ListDocuments(kContext, "docs", "", 10, language).ok());
}

TEST_F(IndexTest, BrokenDocumentsAreRefusedByField) {
  const auto good = [] { return MakeDocument("docs", "a", {"alpha", "beta"}); };
  const std::vector<std::pair<std::string, std::function<void(DocumentVersion*)>>> bad = {
      {"collection", [](auto* d) { d->info.collection = "Docs"; }},
      {"collection", [](auto* d) { d->info.collection = "../docs"; }},
      {"collection", [](auto* d) { d->info.collection = std::string(65, 'a'); }},
      {"document_id", [](auto* d) { d->info.document_id = ""; }},
      {"document_id", [](auto* d) { d->info.document_id = std::string(513, 'a'); }},
      {"document_id", [](auto* d) { d->info.document_id = "a\nb"; }},
      {"document_id", [](auto* d) { d->info.document_id = std::string("a\0b", 3); }},
      {"document_id", [](auto* d) { d->info.document_id = "a\xFF"; }},
      {"document_id", [](auto* d) { d->info.document_id = "a\u0085"; }},
      {"title", [](auto* d) { d->info.title = "\xC0"; }},
      {"content_sha256", [](auto* d) { d->info.content_sha256[0] ^= 1; }},
      {"metadata.m", [](auto* d) { d->info.metadata["m"] = std::nan(""); }},
      {"metadata.m", [](auto* d) { d->info.metadata["m"] = std::string("\xFF"); }},
      {"metadata", [](auto* d) { d->info.metadata[""] = true; }},
      {"chunks[1].chunk_id", [](auto* d) { d->chunks[1].chunk_id = d->chunks[0].chunk_id; }},
      {"chunks[0].chunk_id", [](auto* d) { d->chunks[0].chunk_id = ""; }},
      {"chunks[1].ordinal", [](auto* d) { d->chunks[1].ordinal = 7; }},
      {"chunks[0].document_id", [](auto* d) { d->chunks[0].document_id = "b"; }},
      {"chunks[0].text", [](auto* d) { d->chunks[0].text = " \u200B\n"; }},
      {"chunks[0].text", [](auto* d) { d->chunks[0].text = "\x80"; }},
      {"chunks[0].span",
       [](auto* d) {
         d->chunks[0].span = {0, 1000};
       }},
      {"chunks[0].span",
       [](auto* d) {
         d->chunks[0].span = {3, 2};
       }},
      {"chunks[0].parent_span",
       [](auto* d) {
         d->chunks[0].parent_span = {0, UINT64_MAX};
       }},
      {"chunks[0].source_map",
       [](auto* d) { d->chunks[0].source_map = SourceMap::Identity(0, 6); }},
      {"chunks[0].source_map",
       [](auto* d) { d->chunks[0].source_map = SourceMap::Identity(UINT64_MAX - 2, 2); }},
      {"chunks[0].token_count", [](auto* d) { d->chunks[0].token_count = -1; }},
      {"vectors", [](auto* d) { d->vectors = {1.0f}; }},
  };
  for (const auto& [field, change] : bad) {
    DocumentVersion document = good();
    change(&document);
    const absl::Status status = index_->Commit(kContext, document).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field << ": " << status;
    EXPECT_EQ(FieldOf(status), field) << status;
  }
  DocumentVersion missing = good();
  missing.info.collection = "absent";
  EXPECT_EQ(ReasonOf(index_->Commit(kContext, missing).status()), "COLLECTION_NOT_FOUND");

  Commit(good());
  DocumentVersion thief = MakeDocument("docs", "b", {"alpha"});
  thief.chunks[0].chunk_id = "a#0";
  EXPECT_EQ(FieldOf(index_->Commit(kContext, thief).status()), "chunk_id");
  EXPECT_EQ(index_->Stats().num_documents, 1u);
  ExpectSound();
}

TEST_F(IndexTest, VectorsAreCheckedAtTheDoor) {
  const DocumentVersion good = embedder_.Embed(MakeDocument("vec", "a", {"alpha", "beta"}));
  const float nan = std::nanf("");
  for (const float bad : {nan, INFINITY}) {
    DocumentVersion document = good;
    document.vectors[9] = bad;
    EXPECT_EQ(FieldOf(index_->Commit(kContext, document).status()), "vectors");
  }
  DocumentVersion document = good;
  std::fill_n(document.vectors.begin(), 8, 0.0f);
  EXPECT_EQ(FieldOf(index_->Commit(kContext, document).status()), "vectors");
  document = good;
  document.vectors.pop_back();
  EXPECT_EQ(FieldOf(index_->Commit(kContext, document).status()), "vectors");
  document = good;
  document.embedder_fingerprint = "another";
  EXPECT_EQ(ReasonOf(index_->Commit(kContext, document).status()), "EMBEDDER_MISMATCH");
  EXPECT_EQ(index_->Stats().num_documents, 0u);

  document = good;
  for (float& v : document.vectors) v *= 1000;  // scale carries no meaning
  Commit(document);
  SearchQuery query = Hybrid("alpha");
  query.mode = SearchMode::kVector;
  const SearchResult result = Search(query, &embedder_);
  ASSERT_EQ(result.hits.size(), 2u);
  EXPECT_EQ(result.hits[0].chunk.chunk_id, "a#0");
  EXPECT_NEAR(result.hits[0].score, 1, 1e-6);
  EXPECT_EQ(result.score_kind, ScoreKind::kCosine);
}

TEST_F(IndexTest, AnotherEmbedderIsRefused) {
  Commit(embedder_.Embed(MakeDocument("vec", "a", {"alpha"})));
  FakeEmbedder other_space(8, "other"), other_size(16);
  for (Embedder* embedder : {&other_space, &other_size}) {
    EXPECT_EQ(ReasonOf(index_->Search(kContext, Hybrid("alpha"), embedder, nullptr).status()),
              "EMBEDDER_MISMATCH");
  }
  SearchQuery query = Hybrid("alpha");
  query.vector = std::vector<float>(7, 1.0f);
  EXPECT_EQ(FieldOf(index_->Search(kContext, query, &embedder_, nullptr).status()), "vector");
  query.vector = std::vector<float>(8, 0.0f);
  EXPECT_EQ(FieldOf(index_->Search(kContext, query, &embedder_, nullptr).status()), "vector");
}

TEST_F(IndexTest, AVectorStageThatFailsIsNamedAndCounted) {
  Commit(embedder_.Embed(MakeDocument("vec", "a", {"alpha"})));
  EXPECT_THAT(Search(Hybrid("alpha"), &embedder_).degraded, IsEmpty());
  embedder_.failure = absl::UnavailableError("connection refused");
  const SearchResult result = Search(Hybrid("alpha"), &embedder_);
  ASSERT_EQ(result.degraded.size(), 1u);
  EXPECT_EQ(result.degraded[0].stage, "vector");
  EXPECT_EQ(result.degraded[0].reason, "EMBEDDER_UNAVAILABLE");
  EXPECT_THAT(result.degraded[0].message, HasSubstr("connection refused"));
  EXPECT_EQ(result.score_kind, ScoreKind::kBm25);
  EXPECT_EQ(result.hits.size(), 1u);
  EXPECT_EQ(Search(Hybrid("alpha")).degraded[0].reason, "EMBEDDER_UNAVAILABLE");
  SearchQuery lexical_collection = Hybrid("alpha");
  lexical_collection.collection = "docs";
  EXPECT_EQ(Search(lexical_collection, &embedder_).degraded[0].reason, "LEXICAL_COLLECTION");
  EXPECT_EQ(index_->Stats().num_degraded_vector, 3u);

  SearchQuery vector_only = Hybrid("alpha");  // nothing to fall back to
  vector_only.mode = SearchMode::kVector;
  EXPECT_EQ(index_->Search(kContext, vector_only, &embedder_, nullptr).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(IndexTest, ExplanationsAddUpToTheScore) {
  std::mt19937 random(17);
  const std::vector<std::string> words = {"alpha", "beta", "gamma", "delta",
                                          "the",   "of",   "gold",  "epsilon"};
  for (int d = 0; d < 60; ++d) {
    std::vector<std::string> texts;
    for (int c = 0; c < 3; ++c) {
      std::string text;
      for (int w = 3 + static_cast<int>(random() % 9); w > 0; --w)
        text += words[random() % words.size()] + " ";
      texts.push_back(text);
    }
    Commit(embedder_.Embed(MakeDocument("vec", StrCat("d", d), texts)));
  }
  FakeReranker reranker;
  for (const auto kind : {FusionOptions::Kind::kConvex, FusionOptions::Kind::kRrf}) {
    for (const auto mode : {SearchMode::kHybrid, SearchMode::kLexical, SearchMode::kVector}) {
      for (const auto rerank : {RerankMode::kOff, RerankMode::kOn}) {
        SearchQuery query = Hybrid("alpha gamma gold gold");
        query.mode = mode;
        query.explain = true;
        query.top_k = 40;
        query.candidates = 30;
        query.fusion.kind = kind;
        query.fusion.vector_weight = 0.3;
        query.rerank.mode = rerank;
        query.rerank.weight = 0.4;
        const SearchResult result = Search(query, &embedder_, &reranker);
        ASSERT_FALSE(result.hits.empty());
        EXPECT_EQ(result.reranked, rerank == RerankMode::kOn);
        double last = INFINITY;
        for (const SearchHit& hit : result.hits) {
          const ScoreDetails& d = hit.details;
          EXPECT_LE(hit.score, last);
          last = hit.score;
          if (d.lexical) {
            double sum = 0;
            for (const TermExplanation& term : d.terms) sum += term.contribution;
            EXPECT_EQ(sum, d.lexical->score);
          }
          const double v = d.vector ? d.vector->normalised : 0,
                       l = d.lexical ? d.lexical->normalised : 0;
          double fused;
          if (mode == SearchMode::kLexical) {
            fused = d.lexical->score;
          } else if (mode == SearchMode::kVector) {
            fused = d.vector->score;
          } else if (kind == FusionOptions::Kind::kConvex) {
            fused = d.vector_weight * v + d.lexical_weight * l;
          } else {
            fused = (d.vector ? 1 / (60.0 + d.vector->rank) : 0) +
                    (d.lexical ? 1 / (60.0 + d.lexical->rank) : 0);
          }
          EXPECT_EQ(fused, d.fused);
          const double score = result.reranked ? d.rerank_weight * d.rerank_normalised +
                                                     (1 - d.rerank_weight) * d.fused_normalised
                                               : d.fused;
          EXPECT_EQ(score, hit.score);
        }
      }
    }
  }
}

TEST_F(IndexTest, RerankingLiftsWhatTheRerankerPrefers) {
  Commit(MakeDocument("docs", "a", {"alpha alpha alpha", "alpha gold beta gamma", "beta"}));
  FakeReranker reranker;
  SearchQuery query = Lexical("alpha");
  EXPECT_THAT(Ids(Search(query)), ElementsAre("a#0", "a#1"));
  query.rerank.mode = RerankMode::kAuto;
  query.rerank.weight = 0.6;
  const SearchResult result = Search(query, nullptr, &reranker);
  EXPECT_THAT(Ids(result), ElementsAre("a#1", "a#0"));
  EXPECT_EQ(result.score_kind, ScoreKind::kReranked);
  EXPECT_EQ(result.hits[0].details.rerank_logit, 5.0);
  EXPECT_THAT(reranker.seen, ElementsAre("alpha alpha alpha", "alpha gold beta gamma"));

  query.text =
      "阿尔法 alpha 是什么";  // not a language it supports: auto leaves it alone, on does not
  EXPECT_FALSE(Search(query, nullptr, &reranker).reranked);
  query.rerank.mode = RerankMode::kOn;
  EXPECT_TRUE(Search(query, nullptr, &reranker).reranked);

  reranker.failure = absl::UnavailableError("down");
  SearchResult degraded = Search(query, nullptr, &reranker);
  EXPECT_EQ(degraded.degraded.at(0).reason, "RERANKER_UNAVAILABLE");
  EXPECT_EQ(degraded.score_kind, ScoreKind::kBm25);
  reranker.failure = absl::OkStatus();
  reranker.drop_one = true;  // fewer scores than passages
  EXPECT_EQ(Search(query, nullptr, &reranker).degraded.at(0).reason, "RERANKER_UNAVAILABLE");
  EXPECT_EQ(Search(query).degraded.at(0).reason, "RERANKER_UNAVAILABLE");
  EXPECT_EQ(index_->Stats().num_degraded_rerank, 3u);
}

TEST_F(IndexTest, FiltersKeepTheCountAtEverySelectivity) {
  for (int i = 0; i < 400; ++i) {
    Commit(embedder_.Embed(
        MakeDocument("vec", StrCat("d", i), {StrCat("alpha number ", i)}, {{"n", int64_t{i}}})));
  }
  for (const int matches : {0, 1, 3, 10, 40, 400}) {
    for (const auto mode : {SearchMode::kLexical, SearchMode::kVector, SearchMode::kHybrid}) {
      SearchQuery query = Hybrid("alpha");
      query.mode = mode;
      query.filter = {{"n", Condition::Op::kRange, {}, {}, int64_t{matches - 1}}};
      const SearchResult result = Search(query, &embedder_);
      EXPECT_EQ(result.hits.size(), static_cast<size_t>(std::min(10, matches)));
      for (const SearchHit& hit : result.hits) {
        EXPECT_LT(std::get<int64_t>(hit.document.metadata.at("n")), matches);
      }
    }
  }
  DocumentVersion chinese = embedder_.Embed(MakeDocument("vec", "zh", {"alpha 中文"}));
  chinese.chunks[0].language = "zh";
  Commit(chinese);
  SearchQuery query = Hybrid("alpha");
  query.filter = {{"language", Condition::Op::kIn, {std::string("zh"), std::string("ja")}, {}, {}}};
  EXPECT_THAT(Ids(Search(query, &embedder_)), ElementsAre("zh#0"));
}

TEST_F(IndexTest, ASmallerTopKIsABeginningOfALarger) {
  for (int i = 0; i < 120; ++i) {
    Commit(embedder_.Embed(
        MakeDocument("vec", StrCat("d", i % 37, "-", i), {StrCat("alpha ", i % 5)})));
  }
  SearchQuery query = Hybrid("alpha 3");
  query.top_k = 100;
  const std::vector<std::string> all = Ids(Search(query, &embedder_));
  ASSERT_EQ(all.size(), 100u);
  for (const int k : {1, 10, 37, 99}) {
    query.top_k = k;
    EXPECT_EQ(Ids(Search(query, &embedder_)),
              std::vector<std::string>(all.begin(), all.begin() + k));
  }
}

TEST_F(IndexTest, StopWordsAloneAreSearched) {
  Commit(MakeDocument("docs", "hamlet",
                      {"to be or not to be", "that is the question", "something rotten"}));
  const SearchResult result = Search(Lexical("to be or not to be"));
  EXPECT_TRUE(result.stop_words_only);
  EXPECT_THAT(Ids(result), ElementsAre("hamlet#0"));
  EXPECT_FALSE(Search(Lexical("the question")).stop_words_only);
  Commit(MakeDocument("docs", "zh", {"这是我的书", "月亮"}));
  EXPECT_THAT(Ids(Search(Lexical("的 了 是"))), ElementsAre("zh#0"));
}

// Passages that say "what is" many times do not crowd out the one that says the thing asked about.
TEST_F(IndexTest, QuestionWordsDoNotChooseThePassage) {
  Commit(MakeDocument("docs", "zh",
                      {"bthread 用于执行用户代码，可以有很多", "是什么？是什么！", "这是什么呢"}));
  Commit(MakeDocument("docs", "en",
                      {"a butex wakes waiting threads and much more of the kind",
                       "what does what do", "how does what"}));
  SearchResult result = Search(Lexical("bthread是什么？"));
  EXPECT_THAT(Ids(result), ElementsAre("zh#0"));
  EXPECT_THAT(result.question_words, ElementsAre("是什么"));
  result = Search(Lexical("What does a butex do?"));
  EXPECT_THAT(Ids(result), ElementsAre("en#0"));
  EXPECT_THAT(result.question_words, ElementsAre("What", "does", "do"));
  // Alone they are searched.
  EXPECT_EQ(Search(Lexical("what does")).hits.size(), 2u);
}

TEST_F(IndexTest, TitleAndHeadingsAreSearched) {
  DocumentVersion document = MakeDocument("docs", "a", {"it is limited by a flag", "nothing here"});
  document.info.title = "Concurrency manual";
  document.chunks[0].heading_path = {"Concurrency manual", "Servers"};
  Commit(document);
  EXPECT_THAT(Ids(Search(Lexical("server"))), ElementsAre("a#0"));
  EXPECT_EQ(Search(Lexical("concurrency")).hits.size(), 2u);
}

// Whatever the order of commits and deletes, scores are those of an index that only ever saw what
// is left.
TEST_F(IndexTest, ScoresEqualThoseOfARebuild) {
  std::mt19937 random(23);
  const auto text = [&] {
    std::string out;
    for (int w = 1 + static_cast<int>(random() % 12); w > 0; --w)
      out += StrCat("t", random() % 40, " ");
    return out;
  };
  std::map<std::string, DocumentVersion> live;
  for (int i = 0; i < 600; ++i) {
    const std::string id = StrCat("d", random() % 120);
    if (random() % 3 == 0) {
      EXPECT_EQ(*index_->Delete(kContext, "docs", id), static_cast<int>(live.erase(id)));
    } else {
      live[id] = MakeDocument("docs", id, std::vector<std::string>(1 + random() % 4, text()));
      Commit(live[id]);
    }
  }
  EXPECT_LT(index_->Stats().num_segments, 30u);
  ExpectSound();
  const TempDir other;
  const std::unique_ptr<Index> rebuilt = OpenIndex(other.path());
  ASSERT_TRUE(rebuilt->CreateCollection(LexicalCollection("docs")).ok());
  for (const auto& [id, document] : live) ASSERT_TRUE(rebuilt->Commit(kContext, document).ok());
  for (int round = 0; round < 3; ++round) {
    for (int q = 0; q < 50; ++q) {
      SearchQuery query = Lexical(text());
      query.top_k = 50;
      const SearchResult a = Search(query);
      const auto b = rebuilt->Search(kContext, query, nullptr, nullptr);
      ASSERT_TRUE(b.ok());
      ASSERT_EQ(Ids(a), Ids(*b));
      for (size_t i = 0; i < a.hits.size(); ++i) ASSERT_EQ(a.hits[i].score, b->hits[i].score);
    }
    Reopen();  // the second and third rounds over what was read back
  }
}

TEST_F(IndexTest, OneProcessOneDirectory) {
  const auto second = Index::Open(temp_.path(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(second.status()), "DATA_DIRECTORY_IN_USE");
}

TEST_F(IndexTest, OtherFormatsAreRefused) {
  index_.reset();
  for (const std::string format : {"cairn-index 2\n", "cairn-index 1", "", "something else\n"}) {
    std::ofstream(temp_.path() + "/FORMAT", std::ios::trunc) << format;
    EXPECT_EQ(ReasonOf(Index::Open(temp_.path(), {}).status()), "FORMAT_UNKNOWN") << format;
  }
  std::filesystem::remove(temp_.path() + "/FORMAT");
  EXPECT_EQ(ReasonOf(Index::Open(temp_.path(), {}).status()), "FORMAT_UNKNOWN");
  std::ofstream(temp_.path() + "/FORMAT", std::ios::trunc) << "cairn-index 1\n";
  EXPECT_TRUE(Index::Open(temp_.path(), {}).ok());
}

TEST_F(IndexTest, AnotherAnalyserMeansAnalysingAgain) {
  Commit(MakeDocument("docs", "a", {"running foxes"}));
  index_.reset();
  {  // as an older program would have left it: other terms, another fingerprint
    const auto store = Store::Open(temp_.path() + "/store", 1 << 20);
    ASSERT_TRUE(store.ok());
    const auto snapshot = (*store)->TakeSnapshot();
    CollectionRecord collection;
    ASSERT_TRUE(DecodeCollection("docs", *(*store)->Get(*snapshot, Table::kCollections, "docs"),
                                 &collection));
    TermsRecord terms;
    terms.chunks = {{"a#0", "en"}};
    terms.terms = {{1}, {"w:old"}, {0, 1}, {{0, 1}}};
    collection.analyzer_fingerprint = "older";
    Store::Batch batch;
    batch.Put(Table::kCollections, "docs", EncodeCollection(collection));
    batch.Put(Table::kTerms, VersionKey(collection.id, 1), EncodeTerms(terms));
    ASSERT_TRUE((*store)->Write(batch, true).ok());
  }
  Reopen();
  EXPECT_THAT(Ids(Search(Lexical("fox"))), ElementsAre("a#0"));
  EXPECT_THAT(Ids(Search(Lexical("old"))), IsEmpty());
  EXPECT_NE(index_->GetCollection("docs")->analyzer_fingerprint, "older");
  ExpectSound();
}

// Records that do not agree are found by Verify, or refused when opening.
TEST_F(IndexTest, VerifyFindsWhatDoesNotAgree) {
  Commit(MakeDocument("docs", "a", {"alpha", "beta"}));
  const auto tamper = [&](const std::function<void(Store::Batch*)>& change) {
    index_.reset();
    auto store = Store::Open(temp_.path() + "/store", 1 << 20);
    ASSERT_TRUE(store.ok());
    Store::Batch batch;
    change(&batch);
    ASSERT_TRUE((*store)->Write(batch, true).ok());
  };
  const auto problems = [&] {
    const auto report = index_->Verify(kContext);
    return report.ok() ? report->problems : std::vector<std::string>();
  };
  tamper([](Store::Batch* batch) {
    batch->Put(Table::kSources, SourceKey(1, 1, 0), "alphA\nbeta\n");
  });
  Reopen();
  ASSERT_EQ(problems().size(), 1u);
  EXPECT_THAT(problems()[0], HasSubstr("SHA-256"));
  tamper([](Store::Batch* batch) {
    batch->Put(Table::kSources, SourceKey(1, 1, 0), "alpha\nbeta\n");
    batch->Delete(Table::kChunkIds, ChunkIdKey(1, "a#1"));
    batch->Put(Table::kChunks, ChunkKey(1, 77, 0), "a leftover");
  });
  Reopen();
  EXPECT_EQ(problems().size(), 3u);
  tamper([](Store::Batch* batch) { batch->Delete(Table::kTerms, VersionKey(1, 1)); });
  EXPECT_EQ(Index::Open(temp_.path(), {}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(IndexTest, EndedContextsStopWork) {
  CancelSource source;
  source.Cancel();
  const RequestContext cancelled(source);
  EXPECT_EQ(index_->Commit(cancelled, MakeDocument("docs", "a", {"x"})).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(index_->Search(cancelled, Lexical("x"), nullptr, nullptr).status().code(),
            absl::StatusCode::kCancelled);
  const RequestContext late = kContext.WithTimeout(absl::ZeroDuration());
  EXPECT_EQ(index_->Delete(late, "docs", "a").status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(index_->Stats().num_documents, 0u);
}

}  // namespace
}  // namespace cairn::retrieval
