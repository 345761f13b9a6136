// SentencePiece BPE with byte fallback ("llama" in GGUF): characters are merged pair by pair, the
// pair with the highest score first; what is no token in the end becomes byte tokens.
#ifndef CAIRN_ENGINE_TOKENIZER_SPM_H_
#define CAIRN_ENGINE_TOKENIZER_SPM_H_

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizer/vocab_tokenizer.h"

namespace cairn::engine {

class SpmTokenizer final : public VocabTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);

 private:
  explicit SpmTokenizer(Vocabulary vocab) : VocabTokenizer(std::move(vocab)) {}
  absl::Status IndexTokens();

  void EncodeText(std::string_view text, bool starts_text,
                  std::vector<TokenId>* ids) const override;
  std::string OrdinaryBytes(TokenId id) const override { return bytes_[id]; }
  bool StripsFirstSpace() const override { return add_space_prefix_; }
  TokenId Find(std::string_view text) const;

  bool add_space_prefix_ = true;
  size_t max_token_bytes_ = 0;
  std::vector<std::string> bytes_;                       // [vocab] as they appear in text
  absl::flat_hash_map<absl::string_view, TokenId> ids_;  // normal tokens, by their texts in vocab()
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_SPM_H_
