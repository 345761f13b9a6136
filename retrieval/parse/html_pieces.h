// The visible text of an HTML tree, in pieces, without boilerplate.
#ifndef CAIRN_RETRIEVAL_PARSE_HTML_PIECES_H_
#define CAIRN_RETRIEVAL_PARSE_HTML_PIECES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/parse/document.h"
#include "retrieval/parse/html_text.h"

struct GumboInternalOutput;

namespace cairn::retrieval {

// A stretch of text that becomes a block, or a row of one.
struct HtmlUnit {
  BlockKind kind = BlockKind::kParagraph;
  int level = 0;
  uint32_t table = 0;   // rows of one table share it
  bool header = false;  // a row of header cells
};

struct HtmlPiece {
  HtmlAtom atom;
  size_t unit = 0;    // index into HtmlContent::units
  bool cell = false;  // a further table cell begins here; the atom is its tag, without text
};

struct HtmlContent {
  std::string title;  // of <title>, as it stands
  std::vector<HtmlUnit> units;
  std::vector<HtmlPiece> pieces;  // in the order of the source
};

// Left out: scripts, styles, forms' controls, what is hidden, <nav>, <footer> and the ARIA roles
// that say the same, <header> and <aside> outside of <main> and <article>. When there is exactly
// one <main> with words in it, the rest of the page is left out too.
HtmlContent CollectContent(std::string_view html, const GumboInternalOutput& output);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_HTML_PIECES_H_
