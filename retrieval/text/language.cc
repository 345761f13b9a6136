#include "retrieval/text/language.h"

#include <cstddef>

#include "common/utf8.h"

namespace cairn::retrieval {
namespace {

bool IsLatin(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0x24F) ||
         (c >= 0xFF21 && c <= 0xFF5A);
}
bool IsHan(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x323AF);
}
bool IsKana(char32_t c) { return c >= 0x3041 && c <= 0x30FF; }
// Letters of other scripts, roughly: everything else from Greek up to the symbol blocks, and
// Hangul.
bool IsOtherLetter(char32_t c) {
  return (c >= 0x370 && c < 0x2000) || (c >= 0xAC00 && c <= 0xD7A3);
}

constexpr size_t kLatinLettersPerHan = 4;

}  // namespace

std::string_view LanguageByScript(std::string_view text) {
  size_t latin = 0, han = 0, kana = 0, other = 0;
  for (size_t i = 0, length = 0; i < text.size(); i += length) {
    const char32_t c = DecodeUtf8(text, i, &length);
    latin += IsLatin(c);
    han += IsHan(c);
    kana += IsKana(c);
    other += IsOtherLetter(c);
  }
  const size_t cjk = (han + kana) * kLatinLettersPerHan;
  if (cjk > 0 && cjk >= latin && cjk > other) return kana * 5 > han ? "" : "zh";
  return latin > other && latin > 0 ? "en" : "";
}

}  // namespace cairn::retrieval
