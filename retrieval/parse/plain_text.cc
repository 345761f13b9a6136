#include <string_view>
#include <utility>

#include "common/sentences.h"
#include "retrieval/parse/parsers.h"

namespace cairn::retrieval {
namespace {

// Chinese typesetting begins a paragraph with two ideographic spaces instead of a blank line before
// it.
constexpr std::string_view kIdeographicIndent = "\u3000\u3000";

bool IsBlankLine(std::string_view line) {
  size_t begin = 0, end = line.size();
  TrimBlanks(line, &begin, &end);
  return begin == end;
}

}  // namespace

bool TrimToLines(std::string_view text, Span* span) {
  size_t begin = span->begin, end = span->end;
  TrimBlanks(text, &begin, &end);
  if (begin == end) return false;
  size_t line = begin;
  while (line > span->begin && text[line - 1] != '\n' && text[line - 1] != '\r') --line;
  *span = {line, end};
  return true;
}

absl::StatusOr<ParsedDocument> ParsePlainText(DecodedText decoded) {
  ParsedDocument out;
  const std::string_view text = decoded.text;
  size_t start = 0;  // of the open paragraph
  auto close = [&](size_t end) {
    Block block;
    block.text = {start, end};
    if (TrimToLines(text, &block.text)) out.blocks.push_back(std::move(block));
    start = end;
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = text.find_first_of("\r\n", begin);
    const size_t end = newline == std::string_view::npos ? text.size() : newline;
    const std::string_view line = text.substr(begin, end - begin);
    if (IsBlankLine(line) || line.starts_with(kIdeographicIndent)) close(begin);
    begin = end + 1;
    if (newline != std::string_view::npos && text.substr(newline).starts_with("\r\n")) ++begin;
  }
  close(text.size());
  out.text = std::move(decoded.text);
  out.map = std::move(decoded.map);
  return out;
}

}  // namespace cairn::retrieval
