// Unicode word boundaries (UAX #29) for pure ASCII, without ICU: most English text takes this path.
#ifndef CAIRN_RETRIEVAL_TEXT_ASCII_WORDS_H_
#define CAIRN_RETRIEVAL_TEXT_ASCII_WORDS_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace cairn::retrieval {

enum class AsciiClass : uint8_t { kOther, kLetter, kDigit, kMidNumLet, kMidNum };

constexpr std::array<AsciiClass, 128> MakeAsciiClasses() {
  std::array<AsciiClass, 128> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = AsciiClass::kLetter;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = AsciiClass::kLetter;
  for (int c = '0'; c <= '9'; ++c) classes[c] = AsciiClass::kDigit;
  classes['\''] = classes['.'] = AsciiClass::kMidNumLet;  // between two letters or two digits
  classes[','] = classes[';'] = AsciiClass::kMidNum;      // between two digits
  return classes;
}
inline constexpr auto kAsciiClasses = MakeAsciiClasses();

// Calls `sink(word)` for each word of ASCII `text`. '_' and ':' separate (UAX #29 would keep an
// identifier whole; questions name its parts). REQUIRES: every byte < 128.
template <typename Sink>
void AsciiWords(std::string_view text, Sink&& sink) {
  const auto class_at = [&](size_t i) { return kAsciiClasses[static_cast<uint8_t>(text[i])]; };
  const auto alnum = [](AsciiClass c) {
    return c == AsciiClass::kLetter || c == AsciiClass::kDigit;
  };
  size_t i = 0;
  while (i < text.size()) {
    if (!alnum(class_at(i))) {
      ++i;
      continue;
    }
    const size_t begin = i++;
    while (i < text.size()) {
      const AsciiClass c = class_at(i);
      if (alnum(c)) {
        ++i;
        continue;
      }
      if (c == AsciiClass::kOther || i + 1 >= text.size()) break;
      const AsciiClass before = class_at(i - 1), after = class_at(i + 1);
      const bool joins =
          before == after && (before == AsciiClass::kDigit ||
                              (before == AsciiClass::kLetter && c == AsciiClass::kMidNumLet));
      if (!joins) break;
      i += 2;
    }
    sink(text.substr(begin, i - begin));
  }
}

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TEXT_ASCII_WORDS_H_
