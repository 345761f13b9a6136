// Checks that every parsed document must pass, for the tests of parsing and chunking.
#ifndef CAIRN_RETRIEVAL_PARSE_PARSE_TEST_UTIL_H_
#define CAIRN_RETRIEVAL_PARSE_PARSE_TEST_UTIL_H_

#include <string>
#include <string_view>

#include "common/sentences.h"
#include "common/utf8.h"
#include "gtest/gtest.h"
#include "retrieval/parse/document.h"

namespace cairn::retrieval {

// The invariants of ParsedDocument and of its map, over every run and every block.
inline void CheckDocument(const ParsedDocument& document, std::string_view source) {
  const std::string_view text = document.text;
  ASSERT_TRUE(IsValidUtf8(text));
  uint64_t text_end = 0, source_end = 0;
  for (const SourceRun& run : document.map.runs()) {
    ASSERT_GE(run.text_begin, text_end);
    ASSERT_GE(run.source_begin, source_end);
    ASSERT_GT(run.text_size, 0u);
    text_end = run.text_begin + run.text_size;
    source_end = run.source_begin + run.source_size;
    ASSERT_LE(text_end, text.size());
    ASSERT_LE(source_end, source.size());
    if (run.text_size == run.source_size) {
      ASSERT_EQ(text.substr(run.text_begin, run.text_size),
                source.substr(run.source_begin, run.source_size));
    }
  }
  uint64_t covered = 0;
  auto check_gap = [&](uint64_t begin, uint64_t end) {
    size_t first = begin, last = end;
    TrimBlanks(text, &first, &last);
    ASSERT_EQ(first, last) << "lost: " << text.substr(begin, end - begin);
  };
  for (const Block& block : document.blocks) {
    ASSERT_LE(covered, block.text.begin);
    ASSERT_LT(block.text.begin, block.text.end);
    ASSERT_LE(block.text.end, text.size());
    check_gap(covered, block.text.begin);
    covered = block.text.end;
    const std::string_view words = text.substr(block.text.begin, block.text.size());
    ASSERT_TRUE(IsValidUtf8(words));
    ASSERT_NE(words.front(), '\n');
    ASSERT_NE(words.back(), '\n');
    const Span span = document.map.ToSource(block.text);
    ASSERT_LT(span.begin, span.end);
    ASSERT_LE(span.end, source.size());
    if (document.map.runs().size() == 1 &&
        document.map.runs()[0].text_size == document.map.runs()[0].source_size) {
      ASSERT_EQ(source.substr(span.begin, span.size()), words);
    }
  }
  check_gap(covered, text.size());
}

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_PARSE_TEST_UTIL_H_
