// A token counter and the checks that every list of chunks must pass, for the tests of chunking and
// ingestion.
#ifndef CAIRN_RETRIEVAL_CHUNK_CHUNK_TEST_UTIL_H_
#define CAIRN_RETRIEVAL_CHUNK_CHUNK_TEST_UTIL_H_

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/sentences.h"
#include "common/utf8.h"
#include "gtest/gtest.h"
#include "retrieval/chunk/chunker.h"

namespace cairn::retrieval {

// Five tokens of prefix, then one for each run of up to four ASCII letters or digits and one for
// each other character that is not white space: close to what subword tokenizers do.
inline int FakeTokens(std::string_view text) {
  int tokens = 5, run = 0;
  for (size_t pos = 0; pos < text.size();) {
    size_t length;
    const char32_t c = DecodeUtf8(text, pos, &length);
    pos += length;
    const bool word =
        c < 0x80 && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'));
    if (word && run++ % 4 != 0) continue;
    if (!word) run = 0;
    if (!IsBlank(c)) ++tokens;
  }
  return tokens;
}

// Counts with FakeTokens and keeps books.
struct FakeCounter {
  int calls = 0;
  size_t bytes = 0;
  CountTokensFunction function() {
    return [this](std::span<const std::string_view> texts) -> absl::StatusOr<std::vector<int>> {
      ++calls;
      std::vector<int> out;
      for (const std::string_view text : texts) {
        bytes += text.size();
        out.push_back(FakeTokens(text));
      }
      return out;
    };
  }
};

inline std::set<size_t> ClusterBoundaries(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  UText* utext = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  UBreakIterator* iter = ubrk_open(UBRK_CHARACTER, "en", nullptr, 0, &error);
  ubrk_setUText(iter, utext, &error);
  std::set<size_t> out = {0};
  for (int32_t at = ubrk_next(iter); at != UBRK_DONE; at = ubrk_next(iter)) {
    out.insert(static_cast<size_t>(at));
  }
  ubrk_close(iter);
  utext_close(utext);
  return out;
}

// Where the text of each chunk lies in the document's text, by walking it in order.
inline void CheckChunks(const ParsedDocument& document, std::string_view source,
                        const std::vector<Chunk>& chunks, int max_tokens,
                        bool check_clusters = true) {
  const std::string_view text = document.text;
  const std::set<size_t> boundaries = check_clusters ? ClusterBoundaries(text) : std::set<size_t>();
  std::set<std::string> ids;
  size_t at = 0;
  uint64_t source_end = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    ASSERT_EQ(chunk.ordinal, i);
    ASSERT_TRUE(ids.insert(chunk.chunk_id).second);
    ASSERT_EQ(chunk.chunk_id.size(), 32u);
    ASSERT_EQ(chunk.parent_id.size(), 32u);
    ASSERT_TRUE(IsValidUtf8(chunk.text));
    // The chunk begins at the next place that is not blank, indentation of its first line aside.
    size_t begin = at, end = text.size();
    TrimBlanks(text, &begin, &end);
    ASSERT_LT(begin, end) << "a chunk more than there is text";
    size_t indent = 0, last = chunk.text.size();
    TrimBlanks(chunk.text, &indent, &last);
    ASSERT_LT(indent, last) << "blank chunk";
    ASSERT_EQ(last, chunk.text.size());
    ASSERT_LE(indent, begin);
    begin -= indent;
    ASSERT_LE(at, begin);
    ASSERT_EQ(text.substr(begin, chunk.text.size()), chunk.text);
    at = begin + chunk.text.size();
    if (check_clusters) {
      ASSERT_TRUE(boundaries.contains(begin)) << begin;
      ASSERT_TRUE(boundaries.contains(at)) << at;
    }
    // Tokens.
    ASSERT_EQ(chunk.token_count, FakeTokens(chunk.text));
    ASSERT_LE(chunk.token_count, max_tokens);
    ASSERT_LE(FakeTokens(EmbeddingText(chunk, document.title)), max_tokens);
    // Source.
    ASSERT_EQ(chunk.span, document.map.ToSource({begin, at}));
    ASSERT_LT(chunk.span.begin, chunk.span.end);
    // A run of other bytes maps as a whole, so two chunks may share the source of one.
    const bool shares_run = std::any_of(
        document.map.runs().begin(), document.map.runs().end(), [&](const SourceRun& run) {
          return run.text_size != run.source_size && run.text_begin < begin &&
                 begin < run.text_begin + run.text_size;
        });
    if (!shares_run) {
      ASSERT_LE(source_end, chunk.span.begin);
    }
    ASSERT_LE(chunk.span.end, source.size());
    source_end = chunk.span.end;
    ASSERT_LE(chunk.parent_span.begin, chunk.span.begin);
    ASSERT_GE(chunk.parent_span.end, chunk.span.end);
    ASSERT_EQ(chunk.source_map.ToSource({0, chunk.text.size()}), chunk.span);
    for (const SourceRun& run : chunk.source_map.runs()) {
      if (run.text_size != run.source_size) continue;
      ASSERT_EQ(chunk.text.substr(run.text_begin, run.text_size),
                source.substr(run.source_begin, run.source_size));
    }
    // A heading may follow headings only.
    bool words = false;
    for (const Block& block : document.blocks) {
      if (block.text.begin < begin || block.text.begin >= at) continue;
      ASSERT_FALSE(words && block.kind == BlockKind::kHeading) << "crosses " << block.heading;
      words = words || block.kind != BlockKind::kHeading;
    }
  }
  size_t rest = at, end = text.size();
  TrimBlanks(text, &rest, &end);
  ASSERT_EQ(rest, end) << "not covered: " << text.substr(at);
}

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_CHUNK_CHUNK_TEST_UTIL_H_
