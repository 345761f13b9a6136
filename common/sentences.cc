#include "common/sentences.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/utf8.h"

namespace cairn {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

bool IsAsciiAlpha(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

// Han, kana, Hangul, and the punctuation and full-width forms that go with them.
bool IsCjk(char32_t c) {
  return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7AF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) ||
         (c >= 0x20000 && c <= 0x3FFFF);
}

bool IsCjkTerminator(char32_t c) {
  return c == 0x3002 /* 。 */ || c == 0xFF01 /* ！ */ || c == 0xFF1F /* ？ */ ||
         c == 0xFF1B /* ； */ || c == 0xFF61 /* ｡ */;
}

bool IsWesternTerminator(char32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026; }

// Closing quotes and brackets, and the Markdown marks that close emphasis and code.
bool IsCloser(char32_t c) {
  switch (c) {
    case '"':
    case '\'':
    case ')':
    case ']':
    case '}':
    case '*':
    case '_':
    case '`':
    case 0xBB:
    case 0x2019:
    case 0x201D:
    case 0x3009:
    case 0x300B:
    case 0x300D:
    case 0x300F:
    case 0x3011:
    case 0x3015:
    case 0xFF02:
    case 0xFF07:
    case 0xFF09:
    case 0xFF3D:
    case 0xFF5D:
      return true;
    default:
      return false;
  }
}

// What an abbreviation needs after its period for the sentence to go on.
enum class GoesOn { kNever, kAlways, kBeforeDigit, kUnlessCapital };

GoesOn AbbreviationRule(std::string_view word) {
  static constexpr std::string_view kAlways[] = {"mr",  "mrs", "ms",  "dr",  "prof", "st",
                                                 "vs",  "e.g", "i.e", "eg",  "ie",   "cf",
                                                 "viz", "gen", "rev", "hon", "mt",   "messrs"};
  static constexpr std::string_view kBeforeDigit[] = {"no",  "nos", "fig", "figs", "eq", "eqs",
                                                      "sec", "ch",  "vol", "pp",   "p",  "ver",
                                                      "art", "tab", "ref", "refs"};
  static constexpr std::string_view kUnlessCapital[] = {
      "etc", "inc", "ltd", "corp", "co",   "jr",   "sr",  "al",   "a.m",  "p.m",  "approx", "dept",
      "est", "max", "min", "resp", "incl", "excl", "ed",  "eds",  "assn", "govt", "abbr",   "misc",
      "jan", "feb", "mar", "apr",  "jun",  "jul",  "aug", "sept", "sep",  "oct",  "nov",    "dec"};
  auto in = [&](const auto& words) {
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
  };
  if (in(kAlways)) return GoesOn::kAlways;
  if (in(kBeforeDigit)) return GoesOn::kBeforeDigit;
  if (in(kUnlessCapital)) return GoesOn::kUnlessCapital;
  return GoesOn::kNever;
}

void AddTrimmed(std::string_view text, size_t begin, size_t end, Spans* out) {
  TrimBlanks(text, &begin, &end);
  if (begin < end) out->emplace_back(begin, end);
}

// Whether the period at `dot` ends a sentence, given the first character after the blanks that
// follow.
bool PeriodEnds(std::string_view text, size_t begin, size_t dot, char32_t next) {
  size_t word = dot;  // start of the word before the period, inner periods included
  while (word > begin && dot - word < 16 &&
         (IsAsciiAlpha(static_cast<unsigned char>(text[word - 1])) || text[word - 1] == '.')) {
    --word;
  }
  const bool next_lower = next >= 'a' && next <= 'z';
  const bool next_upper = next >= 'A' && next <= 'Z';
  std::string lower(text.substr(word, dot - word));
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  // "500ms." and "10 ms." end with a unit, "Ms." does not.
  const bool unit = text.substr(word, dot - word) == "ms" ||
                    (word > begin && IsAsciiDigit(static_cast<unsigned char>(text[word - 1])));
  switch (unit ? GoesOn::kNever : AbbreviationRule(lower)) {
    case GoesOn::kAlways:
      return false;
    case GoesOn::kBeforeDigit:
      if (IsAsciiDigit(next)) return false;
      break;
    case GoesOn::kUnlessCapital:
      return next_upper || IsCjk(next);
    case GoesOn::kNever:
      break;
  }
  const bool initial = (lower.size() == 1 && lower[0] != text[word]) ||
                       (lower.size() >= 3 && lower.back() != '.' && lower[lower.size() - 2] == '.');
  if (initial && !unit && (next_upper || next_lower)) return false;  // "J. Smith", "the U.S. Army"
  // Technical prose begins sentences with identifiers, so a lower-case letter may begin one; after
  // a short word it is more likely an abbreviation we do not know.
  return !next_lower || unit || lower.size() >= 4 || lower.empty();
}

// Splits one paragraph. `begin` is past any list marker that belongs to the first sentence, which
// starts at `start`.
void SplitParagraph(std::string_view text, size_t start, size_t begin, size_t end, Spans* out) {
  char32_t previous = 0;
  for (size_t pos = begin; pos < end;) {
    size_t length;
    const char32_t c = DecodeUtf8(text, pos, &length);
    if (!IsCjkTerminator(c) && !IsWesternTerminator(c)) {
      previous = c;
      pos += length;
      continue;
    }
    // The whole run of terminators, then what closes.
    const size_t first = pos;
    bool cjk = false, strong = false;
    size_t run = 0;
    while (pos < end) {
      const char32_t t = DecodeUtf8(text, pos, &length);
      if (!IsCjkTerminator(t) && !IsWesternTerminator(t)) break;
      cjk = cjk || IsCjkTerminator(t);
      strong = strong || t == '!' || t == '?';
      pos += length;
      ++run;
    }
    while (pos < end) {
      const char32_t t = DecodeUtf8(text, pos, &length);
      if (!IsCloser(t)) break;
      pos += length;
    }
    size_t after = pos;
    char32_t next = 0;
    while (after < end) {
      next = DecodeUtf8(text, after, &length);
      if (!IsBlank(next)) break;
      after += length;
    }
    const bool at_end = after >= end;
    bool ends = cjk || at_end;
    if (!ends && after == pos) {  // something follows without a blank
      ends = IsCjk(next) && (strong || (IsCjk(previous) && text[first] == '.'));
    } else if (!ends) {
      const bool next_lower = next >= 'a' && next <= 'z';
      ends = strong || run > 1 || text[first] != '.' ? !next_lower
                                                     : PeriodEnds(text, start, first, next);
    }
    if (ends) {
      AddTrimmed(text, start, pos, out);
      start = pos;
    }
    previous = text[first] == '.' ? U'.' : c;
  }
  AddTrimmed(text, start, end, out);
}

enum class LineKind { kBlank, kText, kIndented, kFence, kHeading, kRow, kRule, kQuote, kItem };

struct Line {
  LineKind kind = LineKind::kText;
  size_t content = 0;  // kItem: after the marker
  char fence = 0;      // kFence: its character, its length and whether it can close
  size_t fence_length = 0;
  bool bare = false;
};

// Length of the list marker at `line`, 0 when there is none.
size_t MarkerLength(std::string_view line) {
  size_t pos = 0;
  const bool bullet = line.starts_with("- ") || line.starts_with("* ") || line.starts_with("+ ") ||
                      line.starts_with("-\t") || line.starts_with("*\t");
  if (bullet) return 2;
  if (line.starts_with("\u2022") || line.starts_with("\u00B7 ")) return 3;
  while (pos < line.size() && pos < 9 && IsAsciiDigit(static_cast<unsigned char>(line[pos]))) ++pos;
  if (pos == 0) return 0;
  if (line.substr(pos).starts_with("\u3001")) return pos + 3;  // 1、
  if (pos + 1 < line.size() && (line[pos] == '.' || line[pos] == ')') &&
      (line[pos + 1] == ' ' || line[pos + 1] == '\t')) {
    return pos + 2;
  }
  return 0;
}

Line Classify(std::string_view text, size_t begin, size_t end) {
  Line out;
  size_t indent = 0, pos = begin;
  for (; pos < end && (text[pos] == ' ' || text[pos] == '\t'); ++pos) {
    indent += text[pos] == '\t' ? 4 : 1;
  }
  std::string_view line = text.substr(pos, end - pos);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  if (line.empty()) {
    out.kind = LineKind::kBlank;
    return out;
  }
  const char c = line[0];
  const size_t same = std::min(line.find_first_not_of(c), line.size());
  if ((c == '`' || c == '~') && same >= 3) {
    out.kind = LineKind::kFence;
    out.fence = c;
    out.fence_length = same;
    out.bare = same == line.size();
    return out;
  }
  if (c == '#' && same <= 6 && (same == line.size() || line[same] == ' ')) {
    out.kind = LineKind::kHeading;
  } else if (c == '|') {
    out.kind = LineKind::kRow;
  } else if ((c == '-' || c == '=' || c == '*' || c == '_') && same == line.size() && same >= 3) {
    out.kind = LineKind::kRule;
  } else if (c == '>') {
    out.kind = LineKind::kQuote;
  } else if (const size_t marker = MarkerLength(line); marker > 0) {
    out.kind = LineKind::kItem;
    out.content = pos + marker;
  } else if (indent >= 4) {
    out.kind = LineKind::kIndented;
  }
  return out;
}

}  // namespace

bool IsBlank(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0xAD ||
         c == 0x1680 || c == 0x180E || (c >= 0x2000 && c <= 0x200B) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x2060 || c == 0x3000 || c == 0xFEFF;
}

void TrimBlanks(std::string_view text, size_t* begin, size_t* end) {
  size_t length;
  while (*begin < *end && IsBlank(DecodeUtf8(text, *begin, &length))) *begin += length;
  while (*begin < *end) {
    size_t start = *end - 1;
    while (start > *begin && *end - start < 4 && (text[start] & 0xC0) == 0x80) --start;
    if (!IsBlank(DecodeUtf8(text, start, &length)) || start + length != *end) return;
    *end = start;
  }
}

Spans SplitSentences(std::string_view text) {
  Spans out;
  // The open paragraph: where it starts, where its words start; none when kBlank.
  LineKind open = LineKind::kBlank;
  size_t start = 0, content = 0;
  char fence = 0;
  size_t fence_length = 0;
  auto close = [&](size_t end) {
    if (open != LineKind::kBlank) SplitParagraph(text, start, content, end, &out);
    open = LineKind::kBlank;
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = text.find('\n', begin);
    const size_t end = newline == std::string_view::npos ? text.size() : newline;
    const Line line = Classify(text, begin, end);
    if (fence != 0) {
      AddTrimmed(text, begin, end, &out);
      if (line.fence == fence && line.bare && line.fence_length >= fence_length) fence = 0;
    } else if (line.kind == LineKind::kBlank) {
      close(begin);
    } else if (line.kind == LineKind::kFence || line.kind == LineKind::kHeading ||
               line.kind == LineKind::kRow || line.kind == LineKind::kRule ||
               (line.kind == LineKind::kIndented && open == LineKind::kBlank)) {
      close(begin);
      AddTrimmed(text, begin, end, &out);
      fence = line.fence;
      fence_length = line.fence_length;
    } else if (open == LineKind::kBlank || line.kind == LineKind::kItem ||
               (line.kind == LineKind::kQuote && open != LineKind::kQuote)) {
      close(begin);
      open = line.kind;
      start = begin;
      content = line.kind == LineKind::kItem ? line.content : begin;
    }
    begin = end + 1;
  }
  close(text.size());
  return out;
}

}  // namespace cairn
