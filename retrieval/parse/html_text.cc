#include "retrieval/parse/html_text.h"

#include <algorithm>

#include "common/utf8.h"

namespace cairn::retrieval {
namespace {

bool IsAlnum(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

// Whether the '<' that `text` begins with can be markup.
bool OpensMarkup(std::string_view text) {
  const char next = text.size() > 1 ? text[1] : ' ';
  return (next | 0x20) >= 'a' ? (next | 0x20) <= 'z' : next == '/' || next == '!' || next == '?';
}

size_t CharacterLength(std::string_view text) {
  if (text.empty()) return 0;
  size_t length;
  DecodeUtf8(text, 0, &length);
  return length;
}

// The second character of the named references that stand for two.
bool IsSecondOfTwo(char32_t c) {
  return c == 0x20D2 || c == 0x20E5 || c == 0x0338 || c == 0x0333 || c == 0xFE00 || c == 0x200A ||
         c == 'j';
}

struct Match {
  size_t original = 0;  // bytes of the reference
  size_t decoded = 0;   // bytes it stands for
};

// Whether the plain text right after the match, up to the next markup, is the same on both sides.
bool ContinuesAlike(std::string_view original, std::string_view decoded, Match match) {
  const std::string_view rest = original.substr(match.original);
  const size_t plain = std::min({rest.find_first_of("&<\r"), rest.size(), size_t{16}});
  if (decoded.size() < match.decoded) return false;
  return decoded.substr(match.decoded).starts_with(rest.substr(0, plain));
}

// What `original`, which begins with '&', and `decoded` say about the reference there; decoded ==
// 0: nothing fits.
Match MatchReference(std::string_view original, std::string_view decoded) {
  size_t end = 1;
  const Match ampersand = decoded.starts_with('&') ? Match{1, 1} : Match{};
  if (original.substr(1).starts_with('#')) {
    const bool hex = original.size() > 2 && (original[2] | 0x20) == 'x';
    const size_t digits = hex ? 3 : 2;
    const std::string_view alphabet = hex ? "0123456789abcdefABCDEF" : "0123456789";
    end = std::min(original.find_first_not_of(alphabet, digits), original.size());
    if (original.size() <= digits || end == digits) return ampersand;  // no digits
    if (end < original.size() && original[end] == ';') ++end;
    return {end, CharacterLength(decoded)};
  }
  while (end < original.size() && IsAlnum(original[end])) ++end;
  if (decoded.starts_with('&')) {  // &amp in its forms, or an ampersand
    if (original.starts_with("&amp;") || original.starts_with("&AMP;")) return {5, 1};
    if (original.starts_with("&amp") || original.starts_with("&AMP")) return {4, 1};
    return ampersand;
  }
  const size_t one = CharacterLength(decoded);
  if (end < original.size() && original[end] == ';') {
    const std::string_view second = decoded.substr(one);
    if (!second.empty()) {
      size_t length;
      const Match two{end + 1, one + CharacterLength(second)};
      if (IsSecondOfTwo(DecodeUtf8(second, 0, &length)) && ContinuesAlike(original, decoded, two)) {
        return two;
      }
    }
    if (const Match match{end + 1, one}; ContinuesAlike(original, decoded, match)) return match;
  }
  // Old names need no semicolon and may be followed by letters ("&copy2020"); the longest have six.
  for (size_t length = std::min<size_t>(end, 7); length >= 3; --length) {
    if (const Match match{length, one}; ContinuesAlike(original, decoded, match)) return match;
  }
  return {};
}

}  // namespace

void AlignText(std::string_view original, std::string_view decoded, uint64_t source_begin,
               std::vector<HtmlAtom>* out) {
  size_t o = 0, d = 0;
  while (o < original.size() && d < decoded.size()) {
    const size_t plain = std::min(original.find_first_of("&<\r", o), original.size()) - o;
    if (plain > 0) {
      if (decoded.substr(d, plain) != original.substr(o, plain)) break;
      out->push_back({original.substr(o, plain), source_begin + o, plain, false});
      o += plain, d += plain;
      continue;
    }
    if (original[o] == '&') {
      const Match match = MatchReference(original.substr(o), decoded.substr(d));
      if (match.decoded == 0) break;
      out->push_back(
          {decoded.substr(d, match.decoded), source_begin + o, match.original, match.original > 1});
      o += match.original, d += match.decoded;
    } else if (original[o] == '\r') {
      // Kept as it stands in the file, so that text and source stay equal; decoded has a line feed.
      if (decoded[d] != '\n') break;
      const size_t length = original.substr(o).starts_with("\r\n") ? 2 : 1;
      out->push_back({original.substr(o, length), source_begin + o, length, false});
      o += length, ++d;
    } else if (decoded[d] == '<' && (!OpensMarkup(original.substr(o)) ||
                                     decoded.substr(d, 2) == original.substr(o, 2))) {
      out->push_back({original.substr(o, 1), source_begin + o, 1, false});
      ++o, ++d;
    } else {  // a tag that the tree builder ignored
      o = std::min(original.find('>', o), original.size() - 1) + 1;
    }
  }
  // What is left of the original may only be ignored tags.
  while (o < original.size() && original[o] == '<') {
    o = std::min(original.find('>', o), original.size() - 1) + 1;
  }
  if (o == original.size() && d == decoded.size()) return;
  // Lost: what follows up to the part that is alike at the end is one piece.
  size_t alike = 0;
  while (alike < original.size() - o && alike < decoded.size() - d) {
    const char c = original[original.size() - 1 - alike];
    if (c != decoded[decoded.size() - 1 - alike] || c == '&' || c == '<' || c == '>') break;
    ++alike;
  }
  while (alike > 0 && (decoded[decoded.size() - alike] & 0xC0) == 0x80) --alike;
  const size_t lost = original.size() - o - alike;
  const std::string_view text = decoded.substr(d, decoded.size() - d - alike);
  if (!text.empty() && lost > 1) out->push_back({text, source_begin + o, lost, true});
  if (alike > 0) {
    out->push_back({original.substr(o + lost), source_begin + o + lost, alike, false});
  }
}

}  // namespace cairn::retrieval
