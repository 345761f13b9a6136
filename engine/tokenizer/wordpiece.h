// WordPiece ("bert" in GGUF) with the normalisation of BERT uncased: control characters removed,
// canonical decomposition, accents stripped, lower case; words at white space, each CJK ideograph
// and each punctuation character a word of its own. A word is cut greedily into the longest pieces;
// if that fails, or it has more than 100 characters, it is one [UNK].
//
// In the file, pieces that begin a word start with U+2581 and the others have lost their "##".
#ifndef CAIRN_ENGINE_TOKENIZER_WORDPIECE_H_
#define CAIRN_ENGINE_TOKENIZER_WORDPIECE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/token_trie.h"
#include "engine/tokenizer/vocab_tokenizer.h"

namespace cairn::engine {

class WordPieceTokenizer final : public VocabTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);

 private:
  explicit WordPieceTokenizer(Vocabulary vocab) : VocabTokenizer(std::move(vocab)) {}
  void IndexPieces();

  void EncodeText(std::string_view text, bool starts_text,
                  std::vector<TokenId>* ids) const override;
  void EncodeWord(std::string_view word, std::vector<TokenId>* ids) const;
  std::string OrdinaryBytes(TokenId id) const override;
  bool StripsFirstSpace() const override { return true; }

  TokenTrie initial_;     // pieces that begin a word
  TokenTrie continuing_;  // the others
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_WORDPIECE_H_
