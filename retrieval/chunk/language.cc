#include "retrieval/chunk/language.h"

#include <cstdint>

#include "common/utf8.h"

namespace cairn::retrieval {

std::string LanguageOf(std::string_view text) {
  uint64_t han = 0, latin_words = 0, other = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    size_t length;
    const char32_t c = DecodeUtf8(text, pos, &length);
    pos += length;
    const bool latin = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= 0xC0 && c <= 0x24F);
    if (latin && !in_word) ++latin_words;
    in_word = latin;
    if ((c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
        (c >= 0x20000 && c <= 0x323AF)) {
      ++han;
    } else if ((c >= 0x3041 && c <= 0x30FF && c != 0x30FB) || (c >= 0xAC00 && c <= 0xD7A3)) {
      ++other;
    }
  }
  if (other * 10 > han + latin_words) return "";
  if (han > 0 && han * 3 >= latin_words) return "zh";
  return latin_words > 0 ? "en" : "";
}

}  // namespace cairn::retrieval
