#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "common/strings.h"

namespace cairn::engine {
namespace {

// Control tokens that end a turn or a text, by the names that chat models give them.
constexpr std::string_view kEndNames[] = {"<|im_end|>",   "<|endoftext|>",   "<|eot_id|>",
                                          "<|eom_id|>",   "<|end_of_text|>", "<|end|>",
                                          "<end_of_turn>"};

absl::Status Invalid(std::string_view message) {
  return absl::InvalidArgumentError(StrCat("tokenizer: ", message));
}

// The id under the first of `keys` that the file has, or -1.
absl::StatusOr<TokenId> ReadId(const GgufFile& file, int vocab_size,
                               std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (!file.Has(key)) continue;
    CAIRN_ASSIGN_OR_RETURN(int64_t id, file.GetInt(key));
    if (id < 0 || id >= vocab_size) {
      return Invalid(StrCat(key, " is ", id, ", the vocabulary has ", vocab_size, " tokens"));
    }
    return static_cast<TokenId>(id);
  }
  return -1;
}

absl::StatusOr<std::optional<bool>> ReadFlag(const GgufFile& file, std::string_view key) {
  if (!file.Has(key)) return std::optional<bool>();
  CAIRN_ASSIGN_OR_RETURN(bool value, file.GetBool(key));
  return std::optional<bool>(value);
}

absl::Status ReadTypes(const GgufFile& file, Vocabulary& vocab) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  vocab.types.assign(vocab.texts.size(), TokenType::kNormal);
  if (!file.Has(kKey)) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(std::span<const int64_t> types, file.GetInts(kKey));
  if (types.size() != vocab.texts.size()) {
    return Invalid(StrCat(types.size(), " token types for ", vocab.texts.size(), " tokens"));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 1 || types[i] > 6) {
      return Invalid(StrCat("token ", i, " has the unknown type ", types[i]));
    }
    vocab.types[i] = static_cast<TokenType>(types[i]);
  }
  return absl::OkStatus();
}

absl::Status ReadScores(const GgufFile& file, Vocabulary& vocab) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  if (!file.Has(kKey)) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(std::span<const float> scores, file.GetFloats(kKey));
  if (scores.size() != vocab.texts.size()) {
    return Invalid(StrCat(scores.size(), " scores for ", vocab.texts.size(), " tokens"));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!std::isfinite(scores[i]))
      return Invalid(StrCat("the score of token ", i, " is not finite"));
  }
  vocab.scores.assign(scores.begin(), scores.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::FromGguf(const GgufFile& file) {
  Vocabulary vocab;
  CAIRN_ASSIGN_OR_RETURN(std::span<const std::string_view> texts,
                         file.GetStrings("tokenizer.ggml.tokens"));
  if (texts.empty()) return Invalid("the vocabulary is empty");
  vocab.texts.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > kMaxTokenBytes) {
      return Invalid(
          StrCat("token ", i, " has ", texts[i].size(), " bytes, the limit is ", kMaxTokenBytes));
    }
    vocab.texts.emplace_back(texts[i]);
  }
  CAIRN_RETURN_IF_ERROR(ReadTypes(file, vocab));
  CAIRN_RETURN_IF_ERROR(ReadScores(file, vocab));

  auto read_id = [&](std::initializer_list<std::string_view> keys) {
    return ReadId(file, vocab.size(), keys);
  };
  CAIRN_ASSIGN_OR_RETURN(vocab.bos,
                         read_id({"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"}));
  // The misspelt key is the one that converters write.
  CAIRN_ASSIGN_OR_RETURN(
      vocab.eos, read_id({"tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id",
                          "tokenizer.ggml.eos_token_id"}));
  CAIRN_ASSIGN_OR_RETURN(vocab.unk, read_id({"tokenizer.ggml.unknown_token_id"}));
  CAIRN_ASSIGN_OR_RETURN(TokenId pad, read_id({"tokenizer.ggml.padding_token_id"}));
  CAIRN_ASSIGN_OR_RETURN(TokenId mask, read_id({"tokenizer.ggml.mask_token_id"}));
  CAIRN_ASSIGN_OR_RETURN(TokenId eot, read_id({"tokenizer.ggml.eot_token_id"}));
  CAIRN_ASSIGN_OR_RETURN(TokenId eom, read_id({"tokenizer.ggml.eom_token_id"}));

  // What the file itself names as special must not be reachable from text, whatever its type says.
  for (TokenId id : {vocab.bos, vocab.eos, pad, mask, eot, eom}) {
    if (id >= 0 && vocab.types[id] != TokenType::kUnknown) vocab.types[id] = TokenType::kControl;
  }
  if (vocab.unk >= 0 && vocab.types[vocab.unk] == TokenType::kNormal) {
    vocab.types[vocab.unk] = TokenType::kUnknown;
  }
  auto add_end = [&](TokenId id) {
    if (id >= 0 && std::ranges::count(vocab.end_of_generation, id) == 0) {
      vocab.end_of_generation.push_back(id);
    }
  };
  for (TokenId id : {vocab.eos, eot, eom}) add_end(id);
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.types[id] == TokenType::kControl &&
        std::ranges::count(kEndNames, std::string_view(vocab.texts[id])) != 0) {
      add_end(id);
    }
  }

  CAIRN_ASSIGN_OR_RETURN(vocab.add_bos, ReadFlag(file, "tokenizer.ggml.add_bos_token"));
  CAIRN_ASSIGN_OR_RETURN(vocab.add_eos, ReadFlag(file, "tokenizer.ggml.add_eos_token"));
  CAIRN_ASSIGN_OR_RETURN(vocab.add_space_prefix, ReadFlag(file, "tokenizer.ggml.add_space_prefix"));
  return vocab;
}

}  // namespace cairn::engine
