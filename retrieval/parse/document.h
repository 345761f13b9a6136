// What a parser makes of a file: text, where each byte of it came from, and its structure.
#ifndef CAIRN_RETRIEVAL_PARSE_DOCUMENT_H_
#define CAIRN_RETRIEVAL_PARSE_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "retrieval/types.h"

namespace cairn::retrieval {

enum class BlockKind {
  kHeading,
  kParagraph,
  kListItem,
  kCode,
  kTable,  // one row a line
  kOther,  // raw HTML in Markdown, link definitions, rules
};

struct Block {
  BlockKind kind = BlockKind::kParagraph;
  int level = 0;             // of a heading, 1 (outermost) to 6
  Span text;                 // in ParsedDocument::text; neither begins nor ends with a line break
  std::string heading;       // the words of a heading without markup
  std::string table_header;  // the header row of a table, "" when it has none
};

// Invariants: `text` is valid UTF-8; blocks are in order, do not overlap, are not blank, and
// together hold every character of `text` that is not blank.
struct ParsedDocument {
  std::string text;
  SourceMap map;  // text -> bytes of the file as it was put
  std::vector<Block> blocks;
  std::string title;  // of the front matter, <title> or the first heading; "" when there is none;
                      // <= 512 bytes
  std::string encoding;  // of the source, as in DocumentInfo::encoding
  uint64_t removed_bytes =
      0;  // source bytes that no text came from: markup, boilerplate, front matter
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_DOCUMENT_H_
