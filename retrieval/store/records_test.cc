#include "retrieval/store/records.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace cairn::retrieval {
namespace {

using std::string_literals::operator""s;

CollectionRecord ExampleCollection() {
  return {7, "docs", "e5", "sha:1", 384, "standard/1", absl::FromUnixMicros(1234567890123456)};
}

DocumentRecord ExampleDocument() {
  DocumentRecord record;
  record.uid = 99;
  record.info = {
      "a.md",
      "docs",
      3,
      "abc",
      "text/markdown",
      "utf-8",
      "Title",
      {{"b", true}, {"d", -1.25}, {"f", false}, {"i", int64_t{-5}}, {"s", std::string("x")}},
      1000,
      2,
      absl::FromUnixMicros(77),
      300};
  return record;
}

constexpr size_t kChunkTokensBytes = 2;  // of 300, at the end of the document's record

Chunk ExampleChunk() {
  Chunk chunk;
  chunk.chunk_id = "id";
  chunk.ordinal = 4;
  chunk.text = "text";
  chunk.span = {10, 14};
  chunk.source_map = SourceMap::Identity(10, 4);
  chunk.heading_path = {"One", "Two"};
  chunk.parent_id = "p";
  chunk.parent_span = {0, 50};
  chunk.token_count = 6;
  chunk.language = "zh";
  return chunk;
}

TermsRecord ExampleTerms() {
  TermsRecord record;
  record.chunks = {{"c0", "en"}, {"c1", ""}};
  record.terms = {{3, 1}, {"w:a", "w:ab"}, {0, 2, 3}, {{0, 2}, {1, 1}, {0, 1}}};
  return record;
}

TEST(Records, RoundTrip) {
  CollectionRecord collection;
  ASSERT_TRUE(DecodeCollection("docs", EncodeCollection(ExampleCollection()), &collection));
  EXPECT_EQ(EncodeCollection(collection), EncodeCollection(ExampleCollection()));
  EXPECT_EQ(collection.created_at, ExampleCollection().created_at);
  EXPECT_EQ(collection.name, "docs");

  DocumentRecord document;
  ASSERT_TRUE(DecodeDocument("docs", "a.md", EncodeDocument(ExampleDocument()), &document));
  EXPECT_EQ(document.uid, 99u);
  EXPECT_EQ(document.info.metadata, ExampleDocument().info.metadata);
  EXPECT_EQ(document.info.chunk_tokens, 300u);
  EXPECT_EQ(EncodeDocument(document), EncodeDocument(ExampleDocument()));
  // One from before chunk_tokens was recorded.
  std::string old = EncodeDocument(ExampleDocument());
  old.resize(old.size() - kChunkTokensBytes);
  DocumentRecord old_document;
  ASSERT_TRUE(DecodeDocument("docs", "a.md", old, &old_document));
  EXPECT_EQ(old_document.info.chunk_tokens, 0u);
  EXPECT_EQ(old_document.info.committed_at, ExampleDocument().info.committed_at);

  Chunk chunk;
  ASSERT_TRUE(DecodeChunk(EncodeChunk(ExampleChunk()), &chunk));
  EXPECT_EQ(chunk.heading_path, ExampleChunk().heading_path);
  EXPECT_EQ(chunk.span, ExampleChunk().span);
  EXPECT_EQ(EncodeChunk(chunk), EncodeChunk(ExampleChunk()));

  TermsRecord terms;
  ASSERT_TRUE(DecodeTerms(EncodeTerms(ExampleTerms()), &terms));
  EXPECT_EQ(EncodeTerms(terms), EncodeTerms(ExampleTerms()));

  std::vector<float> vectors;
  ASSERT_TRUE(DecodeVectors(EncodeVectors({1.5f, -2.0f}), &vectors));
  EXPECT_EQ(vectors, (std::vector<float>{1.5f, -2.0f}));
  EXPECT_FALSE(DecodeVectors("abc", &vectors));
}

// The layout on disk is a promise: these are its bytes.
TEST(Records, BytesOnDisk) {
  EXPECT_EQ(EncodeChunkAddress({300, 2}), std::string("\xAC\x02\x02"));
  EXPECT_EQ(EncodeCollection({1, "n", "m", "fp", 300, "an", absl::FromUnixMicros(5)}),
            std::string("\x01\x01m\x02"
                        "fp\xAC\x02\x02"
                        "an\x05"));
  EXPECT_EQ(ChunkKey(1, 258, 3), "\0\0\0\x01\0\0\0\0\0\0\x01\x02\0\0\0\x03"s);
  EXPECT_EQ(DocumentKey(2, "doc"),
            "\0\0\0\x02"
            "doc"s);
  // Two chunks, "c0" "en" and "c1" ""; lengths 3 and 1; two terms, the second sharing three bytes.
  EXPECT_EQ(EncodeTerms(ExampleTerms()),
            "\x02\x02"
            "c0\x02"
            "en\x02"
            "c1\0\x02\x03\x01\x02"
            "\0\x03w:a\x02\0\x02\0\x01"
            "\x03\x01"
            "b\x01\0\x01"s);
}

TEST(Records, KeysSortAsNumbers) {
  EXPECT_LT(ChunkKey(1, 255, 0), ChunkKey(1, 256, 0));
  EXPECT_LT(ChunkKey(1, 1, 255), ChunkKey(1, 1, 256));
  EXPECT_LT(ChunkKey(1, UINT64_MAX, UINT32_MAX), VersionKey(2, 0));
  uint64_t uid = 0;
  ASSERT_TRUE(ParseUid(VersionKey(5, 0x0102030405060708), &uid));
  EXPECT_EQ(uid, 0x0102030405060708u);
  EXPECT_FALSE(ParseUid("short", &uid));
}

TEST(Records, CutOffAndBrokenBytesAreRefusedOrHarmless) {
  const std::vector<std::pair<std::string, std::function<bool(std::string_view)>>> kinds = {
      {EncodeCollection(ExampleCollection()),
       [](std::string_view b) {
         CollectionRecord out;
         return DecodeCollection("n", b, &out);
       }},
      {EncodeDocument(ExampleDocument()),
       [](std::string_view b) {
         DocumentRecord out;
         return DecodeDocument("c", "d", b, &out);
       }},
      {EncodeChunk(ExampleChunk()),
       [](std::string_view b) {
         Chunk out;
         return DecodeChunk(b, &out);
       }},
      {EncodeTerms(ExampleTerms()),
       [](std::string_view b) {
         TermsRecord out;
         return DecodeTerms(b, &out);
       }},
      {EncodeDeleted(300),
       [](std::string_view b) {
         uint64_t out;
         return DecodeDeleted(b, &out);
       }},
      {EncodeChunkAddress({300, 2}),
       [](std::string_view b) {
         ChunkAddress out;
         return DecodeChunkAddress(b, &out);
       }},
  };
  std::mt19937 random(4);
  for (const auto& [bytes, decode] : kinds) {
    ASSERT_TRUE(decode(bytes));
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      const bool old_document =
          bytes == EncodeDocument(ExampleDocument()) && cut == bytes.size() - kChunkTokensBytes;
      EXPECT_EQ(decode(bytes.substr(0, cut)), old_document);
    }
    EXPECT_FALSE(decode(bytes + "x"));
    for (int i = 0; i < 5000; ++i) {  // for the sanitizers: no crash, no huge allocation
      std::string broken = bytes;
      broken[random() % broken.size()] = static_cast<char>(random());
      decode(broken);
    }
  }
}

}  // namespace
}  // namespace cairn::retrieval
