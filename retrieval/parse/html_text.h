// One text node of HTML against the source it came from.
#ifndef CAIRN_RETRIEVAL_PARSE_HTML_TEXT_H_
#define CAIRN_RETRIEVAL_PARSE_HTML_TEXT_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::retrieval {

// A stretch of decoded text and its place in the HTML. Equal sizes mean equal bytes, unless
// `replaced`.
struct HtmlAtom {
  std::string_view text;
  uint64_t source_begin = 0;
  uint64_t source_size = 0;
  bool replaced = false;  // a character reference, a line ending, a line break element
};

// Appends the atoms of `decoded`, in order: copies of `original` and, one by one, the character
// references in it. Where the two cannot be brought together (markup errors inside a text), what
// lies between becomes one replaced atom. `source_begin` is where `original` starts.
void AlignText(std::string_view original, std::string_view decoded, uint64_t source_begin,
               std::vector<HtmlAtom>* out);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_HTML_TEXT_H_
