#include "retrieval/chunk/split.h"

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>

#include "common/check.h"
#include "common/sentences.h"
#include "common/utf8.h"
#include "retrieval/parse/parsers.h"

namespace cairn::retrieval {
namespace {

using Level = Piece::Level;

void AddChild(std::string_view text, const Piece& parent, Span span, Level level, bool keep_indent,
              std::vector<Piece>* out) {
  if (keep_indent) {
    if (!TrimToLines(text, &span)) return;
  } else {
    size_t begin = span.begin, end = span.end;
    TrimBlanks(text, &begin, &end);
    if (begin == end) return;
    span = {begin, end};
  }
  Piece child = parent;
  child.text = span;
  child.level = level;
  child.tokens = 0;
  out->push_back(child);
}

// Ends of the lines of `span`, line breaks included.
std::vector<uint64_t> LineEnds(std::string_view text, Span span) {
  std::vector<uint64_t> ends;
  for (uint64_t pos = span.begin; pos < span.end;) {
    const size_t found = text.find_first_of("\r\n", pos);
    pos = found == std::string_view::npos ? span.end : found + 1;
    if (found != std::string_view::npos && text.substr(found).starts_with("\r\n")) ++pos;
    pos = std::min<uint64_t>(pos, span.end);
    ends.push_back(pos);
  }
  return ends;
}

bool IsBlankSpan(std::string_view text, uint64_t begin, uint64_t end) {
  size_t first = begin, last = end;
  TrimBlanks(text, &first, &last);
  return first == last;
}

// "|---|:-:|": the second line of a Markdown table.
bool IsDelimiterRow(std::string_view line) {
  return line.find('-') != line.npos && line.find_first_not_of("|-: \t\r\n") == line.npos;
}

std::vector<Piece> SplitLines(std::string_view text, const Piece& piece) {
  std::vector<Piece> out;
  uint64_t begin = piece.text.begin;
  for (const uint64_t end : LineEnds(text, piece.text)) {
    const std::string_view line = text.substr(begin, end - begin);
    if (piece.kind == BlockKind::kTable && out.size() == 1 && !piece.after_header &&
        IsDelimiterRow(line)) {
      out[0].text.end = end;  // the header row keeps its underline
      size_t first = out[0].text.begin, last = end;
      TrimBlanks(text, &first, &last);
      out[0].text.end = last;
    } else {
      AddChild(text, piece, {begin, end}, Level::kLine, true, &out);
      if (piece.kind == BlockKind::kTable && out.size() > 1) out.back().after_header = true;
    }
    begin = end;
  }
  return out;
}

std::vector<Piece> SplitGroups(std::string_view text, const Piece& piece) {
  std::vector<Piece> out;
  uint64_t start = piece.text.begin, begin = piece.text.begin;
  for (const uint64_t end : LineEnds(text, piece.text)) {
    if (IsBlankSpan(text, begin, end)) {
      AddChild(text, piece, {start, begin}, Level::kGroup, true, &out);
      start = end;
    }
    begin = end;
  }
  AddChild(text, piece, {start, piece.text.end}, Level::kGroup, true, &out);
  return out;
}

std::vector<Piece> SplitIntoSentences(std::string_view text, const Piece& piece) {
  std::vector<Piece> out;
  const std::string_view words = text.substr(piece.text.begin, piece.text.size());
  for (const auto& [begin, end] : SplitSentences(words)) {
    AddChild(text, piece, {piece.text.begin + begin, piece.text.begin + end}, Level::kLine, false,
             &out);
  }
  return out;
}

// Offsets in `text` where ICU sees a boundary, text.size() last.
std::vector<size_t> Boundaries(UBreakIteratorType type, std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<UText, decltype(&utext_close)> utext(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error),
      &utext_close);
  std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> iter(
      ubrk_open(type, "en", nullptr, 0, &error), &ubrk_close);
  ubrk_setUText(iter.get(), utext.get(), &error);
  CAIRN_CHECK(U_SUCCESS(error));  // ICU's own data is broken otherwise
  std::vector<size_t> out;
  for (int32_t at = ubrk_next(iter.get()); at != UBRK_DONE; at = ubrk_next(iter.get())) {
    out.push_back(static_cast<size_t>(at));
  }
  return out;
}

std::vector<size_t> CodePointEnds(std::string_view text) {
  std::vector<size_t> out;
  for (size_t pos = 0, length; pos < text.size(); out.push_back(pos)) {
    DecodeUtf8(text, pos, &length);
    pos += length;
  }
  return out;
}

std::vector<Piece> CutWords(std::string_view text, const Piece& piece, size_t parts) {
  const std::string_view whole = text.substr(piece.text.begin, piece.text.size());
  const size_t wanted = std::max<size_t>(1, (whole.size() + parts - 1) / parts);
  std::vector<size_t> clusters = Boundaries(UBRK_CHARACTER, whole);
  if (clusters.size() < 2) clusters = CodePointEnds(whole);
  const std::vector<size_t> words = Boundaries(UBRK_WORD, whole);
  std::vector<Piece> out;
  auto cluster = clusters.begin();
  auto word = words.begin();
  for (size_t begin = 0; begin < whole.size();) {
    size_t end = whole.size();
    if (begin + wanted < whole.size()) {
      // The last word boundary in the second half of the piece; else the last cluster in it, or the
      // first after.
      cluster = std::upper_bound(cluster, clusters.end(), begin + wanted);
      word = std::upper_bound(word, words.end(), begin + wanted);
      const size_t last_word = word == words.begin() ? 0 : *std::prev(word);
      const size_t last_cluster = cluster == clusters.begin() ? 0 : *std::prev(cluster);
      if (last_word > begin + wanted / 2 &&
          std::binary_search(clusters.begin(), clusters.end(), last_word)) {
        end = last_word;
      } else if (last_cluster > begin) {
        end = last_cluster;
      } else {
        end = *cluster;
      }
    }
    AddChild(text, piece, {piece.text.begin + begin, piece.text.begin + end}, Level::kWords, false,
             &out);
    begin = end;
  }
  return out;
}

}  // namespace

std::vector<Piece> SplitPiece(std::string_view text, const Piece& piece, size_t parts) {
  std::vector<Piece> out;
  if (piece.level == Level::kBlock) {
    switch (piece.kind) {
      case BlockKind::kCode:
        out = SplitGroups(text, piece);
        break;
      case BlockKind::kTable:
        out = SplitLines(text, piece);
        break;
      default:
        out = SplitIntoSentences(text, piece);
    }
    if (out.size() > 1) return out;
  }
  if (piece.kind == BlockKind::kCode && piece.level <= Level::kGroup) {
    out = SplitLines(text, piece);
    if (out.size() > 1) return out;
  }
  // With more parts wanted than the text has bytes the cut ends at single code points.
  for (parts = std::max<size_t>(parts, 2);; parts *= 2) {
    out = CutWords(text, piece, parts);
    if (out.size() > 1) return out;
    if (parts > piece.text.size()) return {};
  }
}

}  // namespace cairn::retrieval
