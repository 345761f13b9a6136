// SentencePiece unigram (XLM-RoBERTa, multilingual E5): the segmentation with the best sum of
// log-probabilities, by Viterbi over a trie.
//
// The model file holds (model "t5" in GGUF terms):
//   tokenizer.ggml.model             "t5"
//   tokenizer.ggml.tokens            string array; U+2581 stands for a space
//   tokenizer.ggml.scores            float array, log-probabilities
//   tokenizer.ggml.token_type        int array: 1 normal, 2 unknown, 3 control
//   tokenizer.ggml.bos_token_id, eos_token_id, unknown_token_id, padding_token_id
//   tokenizer.ggml.add_bos_token, add_eos_token     bool, default true
//   tokenizer.ggml.add_space_prefix                 bool, default true
// and our own normalisation table, two arrays of one length:
//   cairn.tokenizer.norm_from        int array: code points, ascending
//   cairn.tokenizer.norm_to          string array: what each becomes; "" deletes it
// A file with SentencePiece's packed table (tokenizer.ggml.precompiled_charsmap) instead, or with
// tokenizer.ggml.remove_extra_whitespaces = false, is refused.
//
// Encoding: replace code points by the table (ill-formed bytes count as U+FFFD); compose neighbours
// that have a canonical composition, as the original table does, so only what was written fully
// decomposed; drop spaces at both ends and all but one of a run; U+2581 for each space and in
// front; Viterbi. A character in no piece may be <unk> at the least score minus 10; of equal paths
// the one found first, shortest piece first, wins. Neighbouring unknown characters make one <unk>.
// Control pieces are never matched: a literal "</s>" is text.
#ifndef CAIRN_ENGINE_TOKENIZER_UNIGRAM_H_
#define CAIRN_ENGINE_TOKENIZER_UNIGRAM_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/tokenizer/token_trie.h"
#include "engine/tokenizer/vocab_tokenizer.h"

namespace cairn::engine {

class UnigramTokenizer final : public VocabTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);

 private:
  explicit UnigramTokenizer(Vocabulary vocab) : VocabTokenizer(std::move(vocab)) {}
  absl::Status ReadNormalization(const GgufFile& file);
  void IndexPieces();

  void EncodeText(std::string_view text, bool starts_text,
                  std::vector<TokenId>* ids) const override;
  std::string OrdinaryBytes(TokenId id) const override;
  bool StripsFirstSpace() const override { return add_space_prefix_; }

  // Replaced, composed, spaces collapsed and marked.
  std::string Normalize(std::string_view text) const;
  // Appends the best segmentation of part of a normalised text.
  void Segment(std::string_view text, std::vector<TokenId>* ids) const;

  bool add_space_prefix_ = true;
  double unk_score_ = 0;
  // Whether a piece has a space mark behind its first character. Where none has, every mark begins
  // a piece, and words can be segmented one by one.
  bool pieces_span_words_ = false;
  TokenTrie pieces_;
  absl::flat_hash_map<char32_t, std::u32string> normalization_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_UNIGRAM_H_
