// Byte-level BPE ("gpt2" in GGUF): words from a pre-tokeniser, each a row of bytes that are merged
// pair by pair in the order of the merge list.
//
// No Unicode normalisation happens, as in llama.cpp: Decode(Encode(text)) gives back every byte of
// a text without special tokens, well-formed UTF-8 or not. (Qwen2's own tokenizer composes to NFC
// first; text with decomposed letters has other ids there.) A byte that the vocabulary lacks, as
// SmolLM2 does some control characters, is left out, as in the reference: its unknown token is a
// control token.
#ifndef CAIRN_ENGINE_TOKENIZER_BPE_H_
#define CAIRN_ENGINE_TOKENIZER_BPE_H_

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/vocab_tokenizer.h"

namespace cairn::engine {

class BpeTokenizer final : public VocabTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);

 private:
  struct Merge {
    int32_t rank;
    TokenId id;
  };

  BpeTokenizer(Vocabulary vocab, PreTokenizer pre) : VocabTokenizer(std::move(vocab)), pre_(pre) {}
  absl::Status IndexTokens();
  absl::Status ReadMerges(std::span<const std::string_view> merges);

  void EncodeText(std::string_view text, bool starts_text,
                  std::vector<TokenId>* ids) const override;
  void EncodeWord(std::string_view word, std::vector<TokenId>* ids) const;
  std::string OrdinaryBytes(TokenId id) const override { return bytes_[id]; }
  bool StripsFirstSpace() const override { return false; }

  PreTokenizer pre_;
  bool whole_words_first_ = false;                       // a word that is a token needs no merges
  std::vector<std::string> bytes_;                       // [vocab] decoded texts of normal tokens
  absl::flat_hash_map<absl::string_view, TokenId> ids_;  // into bytes_
  std::array<TokenId, 256> byte_ids_;                    // tokens of a single byte, -1: none
  absl::flat_hash_map<std::pair<TokenId, TokenId>, Merge> merges_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_BPE_H_
