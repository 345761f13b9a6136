// Cuts a stretch of text into smaller pieces, one level of structure at a time.
#ifndef CAIRN_RETRIEVAL_CHUNK_SPLIT_H_
#define CAIRN_RETRIEVAL_CHUNK_SPLIT_H_

#include <string_view>
#include <vector>

#include "retrieval/parse/document.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

// A stretch of the document's text that is not cut while it fits.
struct Piece {
  enum class Level {
    kBlock,  // a whole block
    kGroup,  // code between blank lines
    kLine,   // a sentence, a table row, a line of code
    kWords,  // a part of a sentence, cut between words
  };
  Span text;
  BlockKind kind = BlockKind::kParagraph;
  Level level = Level::kBlock;
  size_t block = 0;           // index into ParsedDocument::blocks
  bool after_header = false;  // table rows whose header row is not among them
  int tokens = 0;  // counted alone, without prefix and special tokens; 0 = not counted yet
};

// The pieces of the next level down, in order, none blank, together all of `piece` that is not
// blank; at least two of them, or none when it is a single code point. `parts` is how many are
// wanted where the cut is free. Between words where there are any, else between grapheme clusters,
// else (one cluster) between code points.
std::vector<Piece> SplitPiece(std::string_view text, const Piece& piece, size_t parts);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_CHUNK_SPLIT_H_
