#include "engine/tokenizer/pre_tokenizer.h"

#include <unicode/uchar.h>

#include <cstdint>

#include "common/utf8.h"

namespace cairn::engine {
namespace {

enum class CharClass : uint8_t { kSpace, kLetter, kNumber, kSymbol };

CharClass ClassOf(char32_t c) {
  const uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(c));
  if ((category & U_GC_L_MASK) != 0) return CharClass::kLetter;
  if ((category & U_GC_N_MASK) != 0) return CharClass::kNumber;
  return u_isUWhiteSpace(static_cast<UChar32>(c)) ? CharClass::kSpace : CharClass::kSymbol;
}

struct Char {
  uint32_t offset;  // in bytes
  CharClass char_class;
  char32_t code_point;
};

// The characters of a text and one past them, so that chars[i + 1].offset always exists.
std::vector<Char> DecodeChars(std::string_view text) {
  std::vector<Char> chars;
  chars.reserve(text.size() + 1);
  for (size_t pos = 0; pos < text.size();) {
    size_t length = 0;
    char32_t c = DecodeUtf8(text, pos, &length);
    chars.push_back({static_cast<uint32_t>(pos), ClassOf(c), c});
    pos += length;
  }
  chars.push_back({static_cast<uint32_t>(text.size()), CharClass::kSpace, 0});
  return chars;
}

// One regular expression over a range of characters. Match* return the end of the word that begins
// at `pos`; they look no further than `end`, as if the text ended there.
class Matcher {
 public:
  Matcher(const std::vector<Char>& chars, size_t end) : chars_(chars), end_(end) {}

  size_t MatchGpt2(size_t pos) const {
    if (size_t length = Contraction(pos, /*fold_case=*/false)) return pos + length;
    size_t run = AfterOptionalSpace(pos);
    CharClass kind = chars_[run].char_class;
    if (kind != CharClass::kSpace) return EndOfRun(run, kind);
    return MatchSpaces(pos);
  }

  // kQwen2 and kLlama3.
  size_t MatchQwen2(size_t pos, size_t max_digits) const {
    if (size_t length = Contraction(pos, /*fold_case=*/true)) return pos + length;
    const CharClass kind = chars_[pos].char_class;
    const bool is_newline = IsNewline(pos);
    if (kind == CharClass::kLetter ||
        (kind != CharClass::kNumber && !is_newline && Is(pos + 1, CharClass::kLetter))) {
      return EndOfRun(pos + 1, CharClass::kLetter);
    }
    if (kind == CharClass::kNumber) {
      size_t stop = pos + 1;
      while (stop - pos < max_digits && Is(stop, CharClass::kNumber)) ++stop;
      return stop;
    }
    size_t run = AfterOptionalSpace(pos);
    if (Is(run, CharClass::kSymbol)) {
      size_t stop = EndOfRun(run, CharClass::kSymbol);
      while (stop < end_ && IsNewline(stop)) ++stop;
      return stop;
    }
    // \s*[\r\n]+ ends after the last line break of the run.
    size_t stop = EndOfRun(pos, CharClass::kSpace);
    for (size_t i = stop; i > pos; --i) {
      if (IsNewline(i - 1)) return i;
    }
    return MatchSpaces(pos);
  }

 private:
  bool Is(size_t pos, CharClass kind) const { return pos < end_ && chars_[pos].char_class == kind; }
  bool IsNewline(size_t pos) const {
    return chars_[pos].code_point == '\r' || chars_[pos].code_point == '\n';
  }

  size_t EndOfRun(size_t pos, CharClass kind) const {
    while (Is(pos, kind)) ++pos;
    return pos;
  }

  // The position that " ?" leads to when something follows.
  size_t AfterOptionalSpace(size_t pos) const {
    return pos + (chars_[pos].code_point == ' ' && pos + 1 < end_ ? 1 : 0);
  }

  // \s+(?!\S)|\s+ : leaves the last space to the word that follows.
  size_t MatchSpaces(size_t pos) const {
    size_t stop = EndOfRun(pos, CharClass::kSpace);
    return stop < end_ && stop - pos > 1 ? stop - 1 : stop;
  }

  // Characters of 's|'t|'re|'ve|'m|'ll|'d at `pos`, or 0. Case is folded as Unicode does it, so
  // that the long s counts as an s.
  size_t Contraction(size_t pos, bool fold_case) const {
    if (chars_[pos].code_point != '\'' || pos + 1 >= end_) return 0;
    auto letter = [&](size_t p) -> char32_t {
      if (p >= end_) return 0;
      UChar32 c = static_cast<UChar32>(chars_[p].code_point);
      return static_cast<char32_t>(fold_case ? u_foldCase(c, U_FOLD_CASE_DEFAULT) : c);
    };
    char32_t first = letter(pos + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    char32_t second = letter(pos + 2);
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    return first == 'l' && second == 'l' ? 3 : 0;
  }

  const std::vector<Char>& chars_;
  size_t end_;
};

}  // namespace

std::optional<PreTokenizer> PreTokenizerByName(std::string_view name) {
  struct Entry {
    std::string_view name;
    PreTokenizer kind;
  };
  constexpr Entry kEntries[] = {
      {"gpt-2", PreTokenizer::kGpt2},
      {"phi-2", PreTokenizer::kGpt2},
      {"mpt", PreTokenizer::kGpt2},
      {"olmo", PreTokenizer::kGpt2},
      {"smollm", PreTokenizer::kSingleDigitsGpt2},
      {"starcoder", PreTokenizer::kSingleDigitsGpt2},
      {"refact", PreTokenizer::kSingleDigitsGpt2},
      {"command-r", PreTokenizer::kSingleDigitsGpt2},
      {"qwen2", PreTokenizer::kQwen2},
      {"deepseek-r1-qwen", PreTokenizer::kQwen2},
      {"llama-bpe", PreTokenizer::kLlama3},
      {"llama3", PreTokenizer::kLlama3},
      {"llama-v3", PreTokenizer::kLlama3},
  };
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.kind;
  }
  return std::nullopt;
}

void SplitWords(PreTokenizer kind, std::string_view text, std::vector<std::string_view>* words) {
  const std::vector<Char> chars = DecodeChars(text);
  const size_t count = chars.size() - 1;
  auto emit = [&](size_t begin, size_t end) {
    words->push_back(text.substr(chars[begin].offset, chars[end].offset - chars[begin].offset));
  };
  auto split_range = [&](size_t begin, size_t end) {
    Matcher matcher(chars, end);
    for (size_t pos = begin; pos < end;) {
      size_t stop;
      switch (kind) {
        case PreTokenizer::kQwen2:
          stop = matcher.MatchQwen2(pos, 1);
          break;
        case PreTokenizer::kLlama3:
          stop = matcher.MatchQwen2(pos, 3);
          break;
        default:
          stop = matcher.MatchGpt2(pos);
      }
      emit(pos, stop);
      pos = stop;
    }
  };
  if (kind != PreTokenizer::kSingleDigitsGpt2) {
    split_range(0, count);
    return;
  }
  size_t begin = 0;
  for (size_t pos = 0; pos < count; ++pos) {
    if (chars[pos].char_class != CharClass::kNumber) continue;
    split_range(begin, pos);
    emit(pos, pos + 1);
    begin = pos + 1;
  }
  split_range(begin, count);
}

}  // namespace cairn::engine
