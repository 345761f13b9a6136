#include "engine/tokenizer/wordpiece.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <cstdint>

#include "common/check.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::engine {
namespace {

constexpr size_t kMaxWordChars = 100;  // max_input_chars_per_word of every BERT tokenizer

// The general category, as a mask of U_GC_*_MASK, as the reference knows it: its table is Unicode
// 8, where later characters are unassigned and six were of another category.
uint32_t CategoryMask(char32_t c) {
  constexpr uint8_t kTableVersion = 8;
  switch (c) {
    case 0x166D:
    case 0x111C9:
      return U_GC_PO_MASK;
    case 0x1734:
      return U_GC_MN_MASK;
    case 0x1885:
    case 0x1886:
      return U_GC_LO_MASK;
    case 0xA9BD:
      return U_GC_MC_MASK;
  }
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > kTableVersion ? U_GC_CN_MASK : U_GET_GC_MASK(static_cast<UChar32>(c));
}

// Private-use and format characters count; unassigned ones do not, as in the reference.
bool IsControlChar(char32_t c) {
  return (CategoryMask(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

bool IsPunctuation(char32_t c) {
  // All visible ASCII that is no letter or digit, + and $ among them.
  return (CategoryMask(c) & (U_GC_P_MASK | (c < 0x80 ? U_GC_S_MASK : 0))) != 0;
}

// The blocks of the reference, with its slip of 2B920 for 2B820, so that the words are the same.
bool IsCjkIdeograph(char32_t c) {
  struct Block {
    char32_t first, last;
  };
  constexpr Block kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                               {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                               {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const Block& block : kBlocks) {
    if (c >= block.first && c <= block.last) return true;
  }
  return false;
}

// The canonical decomposition of one character. Marks are dropped later, so that their order, which
// the full algorithm would settle, does not matter.
void AppendDecomposed(char32_t c, std::u32string* out) {
  static const UNormalizer2* const kNfd = [] {
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
    CAIRN_CHECK(U_SUCCESS(error));
    return nfd;
  }();
  UChar buffer[32];  // the longest canonical decomposition has 4 characters
  UErrorCode error = U_ZERO_ERROR;
  int32_t length =
      c < 0xC0 ? -1 : unorm2_getDecomposition(kNfd, static_cast<UChar32>(c), buffer, 32, &error);
  if (length < 0 || U_FAILURE(error)) {
    out->push_back(c);
    return;
  }
  for (int32_t i = 0; i < length;) {
    UChar32 part;
    U16_NEXT(buffer, i, length, part);
    out->push_back(static_cast<char32_t>(part));
  }
}

// Calls `emit(word)` for each word of the normalised text.
template <typename Emit>
void ForEachWord(std::string_view text, const Emit& emit) {
  std::string word;
  auto flush = [&] {
    if (!word.empty()) emit(word);
    word.clear();
  };
  std::u32string parts;
  for (size_t pos = 0; pos < text.size();) {
    size_t length = 0;
    const char32_t c = DecodeUtf8(text, pos, &length);
    pos += length;
    const bool is_blank = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == kReplacementChar || (!is_blank && IsControlChar(c))) continue;
    if (u_isUWhiteSpace(static_cast<UChar32>(c))) {
      flush();
      continue;
    }
    const bool is_ideograph = IsCjkIdeograph(c);  // asked before the decomposition
    if (is_ideograph) flush();
    parts.clear();
    AppendDecomposed(c, &parts);
    for (char32_t part : parts) {
      if (CategoryMask(part) == U_GC_MN_MASK) continue;
      const bool is_punctuation = IsPunctuation(part);
      if (is_punctuation) flush();
      AppendUtf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(part))), &word);
      if (is_punctuation) flush();
    }
    if (is_ideograph) flush();
  }
  flush();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> WordPieceTokenizer::Load(const GgufFile& file) {
  for (std::string_view key :
       {"tokenizer.ggml.normalizer.lowercase", "tokenizer.ggml.normalizer.strip_accents"}) {
    if (!file.Has(key)) continue;
    CAIRN_ASSIGN_OR_RETURN(bool value, file.GetBool(key));
    if (!value) {
      return absl::UnimplementedError(StrCat("tokenizer: ", key, " = false (a cased BERT)"));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(Vocabulary vocab, Vocabulary::FromGguf(file));
  if (vocab.unk < 0 || vocab.bos < 0 || vocab.eos < 0) {
    return absl::InvalidArgumentError(
        "tokenizer: model 'bert' needs unknown, CLS and SEP token ids");
  }
  std::unique_ptr<WordPieceTokenizer> tokenizer(new WordPieceTokenizer(std::move(vocab)));
  tokenizer->IndexPieces();
  Frame frame = tokenizer->BosEosFrame(/*default_bos=*/true, /*default_eos=*/true);
  frame.between = frame.after;  // [CLS] first [SEP] second [SEP]
  frame.second_text_has_type_one = true;
  tokenizer->SetFrame(std::move(frame));
  return tokenizer;
}

void WordPieceTokenizer::IndexPieces() {
  std::vector<std::pair<std::string_view, int32_t>> initial, continuing;
  for (TokenId id = 0; id < vocab().size(); ++id) {
    if (vocab().types[id] != TokenType::kNormal) continue;
    std::string_view text = vocab().texts[id];
    if (text.starts_with(kSpaceMark)) {
      initial.emplace_back(text.substr(kSpaceMark.size()), id);
    } else {
      continuing.emplace_back(text, id);
    }
  }
  initial_ = TokenTrie(std::move(initial));
  continuing_ = TokenTrie(std::move(continuing));
}

void WordPieceTokenizer::EncodeText(std::string_view text, bool, std::vector<TokenId>* ids) const {
  ForEachWord(text, [&](std::string_view word) { EncodeWord(word, ids); });
}

void WordPieceTokenizer::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  const size_t first = ids->size();
  size_t num_chars = 0;
  for (char c : word) num_chars += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  bool failed = num_chars > kMaxWordChars;
  for (size_t pos = 0; pos < word.size() && !failed;) {
    auto [length, id] = (pos == 0 ? initial_ : continuing_).LongestPrefix(word.substr(pos));
    failed = length == 0;
    if (!failed) ids->push_back(id);
    pos += length;
  }
  if (failed) {
    ids->resize(first);
    ids->push_back(vocab().unk);
  }
}

std::string WordPieceTokenizer::OrdinaryBytes(TokenId id) const {
  std::string_view text = vocab().texts[id];
  if (!text.starts_with(kSpaceMark)) return std::string(text);
  return StrCat(" ", text.substr(kSpaceMark.size()));
}

}  // namespace cairn::engine
