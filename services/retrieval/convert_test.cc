#include "services/retrieval/convert.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::retrieval::v1;
using ::testing::ElementsAre;

retrieval::Chunk SomeChunk() {
  retrieval::Chunk chunk;
  chunk.chunk_id = "c1";
  chunk.document_id = "d";
  chunk.version = 7;
  chunk.ordinal = 3;
  chunk.text = "a & b";
  chunk.span = {10, 19};
  chunk.source_map = retrieval::SourceMap({{0, 2, 10, 2}, {2, 1, 12, 5}, {3, 2, 17, 2}});
  chunk.heading_path = {"H1", "H2"};
  chunk.parent_id = "p";
  chunk.parent_span = {0, 100};
  chunk.token_count = 5;
  chunk.language = "en";
  return chunk;
}

TEST(RetrievalConvert, ChunkSurvivesTheWire) {
  const retrieval::Chunk chunk = SomeChunk();
  proto::Chunk wire;
  WriteChunk(chunk, &wire);
  const auto back = ReadChunk(wire, "chunk");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->chunk_id, chunk.chunk_id);
  EXPECT_EQ(back->document_id, chunk.document_id);
  EXPECT_EQ(back->version, chunk.version);
  EXPECT_EQ(back->ordinal, chunk.ordinal);
  EXPECT_EQ(back->text, chunk.text);
  EXPECT_EQ(back->span, chunk.span);
  EXPECT_EQ(back->source_map.Serialize(), chunk.source_map.Serialize());
  EXPECT_EQ(back->heading_path, chunk.heading_path);
  EXPECT_EQ(back->parent_id, chunk.parent_id);
  EXPECT_EQ(back->parent_span, chunk.parent_span);
  EXPECT_EQ(back->token_count, chunk.token_count);
  EXPECT_EQ(back->language, chunk.language);
}

TEST(RetrievalConvert, PlainTextNeedsNoRuns) {
  retrieval::Chunk chunk = SomeChunk();
  chunk.span = {10, 15};
  chunk.source_map = retrieval::SourceMap::Identity(10, 5);
  EXPECT_TRUE(TextIsSource(chunk));
  proto::Chunk wire;
  WriteChunk(chunk, &wire);
  EXPECT_EQ(wire.runs_size(), 0);
  EXPECT_EQ(ReadChunk(wire, "chunk")->source_map.Serialize(), chunk.source_map.Serialize());
  EXPECT_FALSE(TextIsSource(SomeChunk()));
}

TEST(RetrievalConvert, DocumentSurvivesTheWire) {
  retrieval::DocumentInfo info;
  info.document_id = "a/b.md";
  info.collection = "c";
  info.version = 2;
  info.content_sha256 = std::string(64, 'a');
  info.media_type = "text/markdown";
  info.encoding = "utf-8";
  info.title = "T";
  info.metadata = {{"s", std::string("x")}, {"i", int64_t{-5}}, {"d", 2.5}, {"b", true}};
  info.source_bytes = uint64_t{1} << 40;
  info.num_chunks = 9;
  info.chunk_tokens = 64;
  info.committed_at = absl::FromUnixMillis(1'700'000'000'123);
  proto::Document wire;
  WriteDocument(info, &wire);
  const auto back = ReadDocument(wire, "document");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->document_id, info.document_id);
  EXPECT_EQ(back->metadata, info.metadata);
  EXPECT_EQ(back->source_bytes, info.source_bytes);
  EXPECT_EQ(back->chunk_tokens, info.chunk_tokens);
  EXPECT_EQ(back->committed_at, info.committed_at);
  EXPECT_EQ(back->version, 2u);
}

TEST(RetrievalConvert, FilterKeepsTypesAndOrder) {
  common::v1::Filter filter;
  auto* first = filter.add_conditions();
  first->set_key("year");
  first->mutable_range()->set_low(1990);
  auto* second = filter.add_conditions();
  second->set_key("kind");
  second->mutable_in()->add_values()->set_string_value("a");
  second->mutable_in()->add_values()->set_bool_value(false);
  const auto out = ReadFilter(filter);
  ASSERT_TRUE(out.ok());
  ASSERT_EQ(out->size(), 2u);
  EXPECT_EQ((*out)[0].op, retrieval::Condition::Op::kRange);
  EXPECT_EQ((*out)[0].low, retrieval::MetadataValue(1990.0));
  EXPECT_FALSE((*out)[0].high.has_value());
  EXPECT_THAT((*out)[1].values, ElementsAre(retrieval::MetadataValue(std::string("a")),
                                            retrieval::MetadataValue(false)));
}

TEST(RetrievalConvert, NamesAreCheckedAtTheirEdges) {
  EXPECT_EQ(*ReadCollection(""), "default");
  EXPECT_EQ(*ReadCollection(std::string(64, 'a')), std::string(64, 'a'));
  for (const char* bad : {"A", "-a", "_a", "a/b", "a b", "..", "\xc3\xa9"}) {
    EXPECT_EQ(FieldOf(ReadCollection(bad).status()), "collection") << bad;
  }
  EXPECT_FALSE(ReadCollection(std::string(65, 'a')).ok());
  EXPECT_TRUE(CheckDocumentId(std::string(512, 'x')).ok());
  EXPECT_TRUE(CheckDocumentId("中文/路径.md").ok());
  EXPECT_FALSE(CheckDocumentId(std::string(513, 'x')).ok());
  EXPECT_FALSE(CheckDocumentId("a\x7f").ok());
  EXPECT_FALSE(CheckDocumentId("\xff").ok());
}

TEST(RetrievalConvert, SearchTakesItsDefaultsFromTheServer) {
  proto::SearchRequest request;
  request.set_query("q");
  const auto query = ReadSearchRequest(
      request, {.vector_weight = 0.3, .candidates = 77, .rerank_top = 5, .rerank_weight = 0.2});
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->collection, "default");
  EXPECT_EQ(query->top_k, 10);
  EXPECT_EQ(query->candidates, 77);
  EXPECT_EQ(query->fusion.vector_weight, 0.3);
  EXPECT_EQ(query->rerank.mode, retrieval::RerankMode::kAuto);
  request.mutable_fusion()->mutable_convex()->set_vector_weight(0);
  EXPECT_EQ(ReadSearchRequest(request, {})->fusion.vector_weight, 0);
  request.mutable_fusion()->mutable_rrf();
  EXPECT_EQ(ReadSearchRequest(request, {})->fusion.rrf_k, 60);
}

TEST(RetrievalConvert, ResponseNamesTheWordsLeftOut) {
  retrieval::SearchResult result;
  result.question_words = {"How", "什么"};
  proto::SearchResponse response;
  WriteSearchResult({}, result, &response);
  EXPECT_THAT(response.ignored_words(), ElementsAre("How", "什么"));
}

TEST(RetrievalConvert, TimesBeforeTheEpochKeepTheirNanos) {
  google::protobuf::Timestamp wire;
  const absl::Time time = absl::FromUnixNanos(-1);
  WriteTime(time, &wire);
  EXPECT_EQ(wire.seconds(), -1);
  EXPECT_EQ(wire.nanos(), 999'999'999);
  EXPECT_EQ(ReadTime(wire), time);
}

}  // namespace
}  // namespace cairn::services
