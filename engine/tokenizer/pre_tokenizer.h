// Pre-tokenisers of byte-level BPE: cut a text into the words inside which merges happen.
//
// Each kind is a published regular expression, matched by hand in linear time. Unicode classes are
// ICU's. An ill-formed byte counts as a symbol (neither space, letter nor number).
#ifndef CAIRN_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
#define CAIRN_ENGINE_TOKENIZER_PRE_TOKENIZER_H_

#include <optional>
#include <string_view>
#include <vector>

namespace cairn::engine {

enum class PreTokenizer {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // First every \p{N} by itself, then kGpt2 between them.
  kSingleDigitsGpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|
  //  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kQwen2,
  // The same with \p{N}{1,3}.
  kLlama3,
};

// By the name under tokenizer.ggml.pre; nullopt for a name that we do not know.
std::optional<PreTokenizer> PreTokenizerByName(std::string_view name);

// Appends the words of `text`, end to end; together they are the text.
void SplitWords(PreTokenizer kind, std::string_view text, std::vector<std::string_view>* words);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
