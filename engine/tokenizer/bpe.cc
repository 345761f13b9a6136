#include "engine/tokenizer/bpe.h"

#include <optional>

#include "common/strings.h"
#include "common/utf8.h"
#include "engine/tokenizer/pair_merge.h"

namespace cairn::engine {
namespace {

// GPT-2 writes a byte as a printable character: those of Latin-1 that are visible stand for
// themselves, the others for U+0100 and up, in order. Code points from 0x144 on mean no byte.
std::array<int, 0x144> MakeByteOfChar() {
  std::array<int, 0x144> byte_of;
  byte_of.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bool visible = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    byte_of[visible ? byte : next++] = byte;
  }
  return byte_of;
}

// The bytes that a token's text stands for; nullopt when it holds a character that means none.
std::optional<std::string> DecodeTokenText(std::string_view text) {
  static const std::array<int, 0x144> kByteOf = MakeByteOfChar();
  std::string bytes;
  for (size_t pos = 0; pos < text.size();) {
    size_t length = 0;
    char32_t c = DecodeUtf8(text, pos, &length);
    if (c >= kByteOf.size() || kByteOf[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[c]));
    pos += length;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> BpeTokenizer::Load(const GgufFile& file) {
  if (!file.Has("tokenizer.ggml.pre")) {
    return absl::UnimplementedError(
        "tokenizer: the file names no pre-tokeniser (tokenizer.ggml.pre); a guess would give wrong "
        "tokens");
  }
  CAIRN_ASSIGN_OR_RETURN(std::string_view name, file.GetString("tokenizer.ggml.pre"));
  std::optional<PreTokenizer> pre = PreTokenizerByName(name);
  if (!pre.has_value()) {
    return absl::UnimplementedError(StrCat("tokenizer: unknown pre-tokeniser '", name, "'"));
  }
  CAIRN_ASSIGN_OR_RETURN(std::span<const std::string_view> merges,
                         file.GetStrings("tokenizer.ggml.merges"));
  CAIRN_ASSIGN_OR_RETURN(Vocabulary vocab, Vocabulary::FromGguf(file));
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(vocab), *pre));
  const bool is_llama3 = *pre == PreTokenizer::kLlama3;
  tokenizer->whole_words_first_ = is_llama3;
  CAIRN_RETURN_IF_ERROR(tokenizer->IndexTokens());
  CAIRN_RETURN_IF_ERROR(tokenizer->ReadMerges(merges));
  tokenizer->SetFrame(tokenizer->BosEosFrame(/*default_bos=*/is_llama3, /*default_eos=*/false));
  return tokenizer;
}

absl::Status BpeTokenizer::IndexTokens() {
  bytes_.resize(vocab().texts.size());
  ids_.reserve(vocab().texts.size());
  for (TokenId id = 0; id < vocab().size(); ++id) {
    if (vocab().types[id] != TokenType::kNormal) continue;
    std::optional<std::string> bytes = DecodeTokenText(vocab().texts[id]);
    if (!bytes.has_value()) {
      bytes_[id] = vocab().texts[id];  // not reachable from text, but a model may still emit it
      continue;
    }
    bytes_[id] = *std::move(bytes);
    if (bytes_[id].empty()) continue;
    auto [it, is_new] = ids_.try_emplace(ToAbsl(bytes_[id]), id);
    if (!is_new) {
      return absl::InvalidArgumentError(
          StrCat("tokenizer: tokens ", it->second, " and ", id, " are the same bytes"));
    }
  }
  byte_ids_.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    char c = static_cast<char>(byte);
    if (auto it = ids_.find(absl::string_view(&c, 1)); it != ids_.end())
      byte_ids_[byte] = it->second;
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::ReadMerges(std::span<const std::string_view> merges) {
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    auto invalid = [&](std::string_view message) {
      return absl::InvalidArgumentError(
          StrCat("tokenizer: merge ", rank, " '", merges[rank], "' ", message));
    };
    const size_t space = merges[rank].find(' ', 1);
    if (space == std::string_view::npos) return invalid("is not a pair");
    std::optional<std::string> left = DecodeTokenText(merges[rank].substr(0, space));
    std::optional<std::string> right = DecodeTokenText(merges[rank].substr(space + 1));
    if (!left.has_value() || !right.has_value()) return invalid("is not byte-level");
    auto left_id = ids_.find(*left), right_id = ids_.find(*right),
         both_id = ids_.find(*left + *right);
    if (left_id == ids_.end() || right_id == ids_.end() || both_id == ids_.end()) {
      return invalid("speaks of tokens that the vocabulary lacks");
    }
    merges_.try_emplace({left_id->second, right_id->second},
                        Merge{static_cast<int32_t>(rank), both_id->second});
  }
  return absl::OkStatus();
}

void BpeTokenizer::EncodeText(std::string_view text, bool, std::vector<TokenId>* ids) const {
  std::vector<std::string_view> words;
  SplitWords(pre_, text, &words);
  for (std::string_view word : words) EncodeWord(word, ids);
}

void BpeTokenizer::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  if (whole_words_first_) {
    if (auto it = ids_.find(ToAbsl(word)); it != ids_.end()) {
      ids->push_back(it->second);
      return;
    }
  }
  std::vector<Symbol> symbols(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    symbols[i].id = byte_ids_[static_cast<uint8_t>(word[i])];
    symbols[i].length = 1;
  }
  MergePairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<PairMerge> {
    auto it = merges_.find({left.id, right.id});
    if (it == merges_.end()) return std::nullopt;
    return PairMerge{static_cast<double>(it->second.rank), it->second.id};
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.length > 0 && symbol.id >= 0) ids->push_back(symbol.id);
  }
}

}  // namespace cairn::engine
