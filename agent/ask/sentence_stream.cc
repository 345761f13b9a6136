#include "agent/ask/sentence_stream.h"

#include <utility>

#include "common/sentences.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Full-width terminators and the quotes and brackets that close behind one.
constexpr std::string_view kFullWidthEnds = "。！？；…”’」』）》】｡";

// Whether a sentence may have ended just before the last character of `text`, which is complete.
bool MayHaveEnded(std::string_view text) {
  const auto character_before = [&](size_t end) {
    size_t begin = end;
    while (begin > 0 && (text[begin - 1] & 0xC0) == 0x80) --begin;
    return begin > 0 ? begin - 1 : 0;
  };
  const size_t last = character_before(text.size());
  if (last == 0 || IsBlank(text[last])) return false;
  if (IsBlank(text[last - 1])) return true;
  if ((text[last - 1] & 0x80) == 0) return false;
  const size_t before = character_before(last);
  return kFullWidthEnds.find(text.substr(before, last - before)) != std::string_view::npos;
}

// A blank line outside a code fence: nothing before it bears on how what follows is cut.
size_t LastSafeStart(std::string_view text, size_t limit) {
  bool in_fence = false;
  size_t safe = 0;
  for (size_t line = 0; line < limit;) {
    const size_t end = text.find('\n', line);
    if (end == std::string_view::npos || end >= limit) break;
    if (text.substr(line, 3) == "```" || text.substr(line, 3) == "~~~") in_fence = !in_fence;
    if (!in_fence && end == line) safe = line;
    line = end + 1;
  }
  return safe;
}

}  // namespace

std::vector<SentenceStream::Piece> SentenceStream::Feed(std::string_view text) {
  std::vector<Piece> out;
  for (const char byte : text) {
    text_ += byte;
    if (IncompleteUtf8Suffix(text_) == 0 && MayHaveEnded(text_)) Cut(false, &out);
  }
  return out;
}

std::vector<SentenceStream::Piece> SentenceStream::Finish() {
  std::vector<Piece> out;
  Cut(true, &out);
  return out;
}

void SentenceStream::Cut(bool at_end, std::vector<Piece>* out) {
  const auto spans = SplitSentences(text_);
  for (size_t i = 0; i < spans.size(); ++i) {
    // The last sentence may still grow.
    if (!at_end && i + 1 == spans.size()) break;
    const auto [begin, end] = spans[i];
    if (end <= committed_) continue;
    size_t from = begin < committed_ ? committed_ : begin;
    while (from < end && IsBlank(text_[from])) ++from;
    if (from == end) continue;
    out->push_back({text_.substr(committed_, from - committed_), text_.substr(from, end - from),
                    base_ + from, base_ + end});
    committed_ = end;
  }
  if (const size_t safe = LastSafeStart(text_, committed_); safe > 0) {
    text_.erase(0, safe);
    base_ += safe;
    committed_ -= safe;
  }
}

}  // namespace cairn::agent
