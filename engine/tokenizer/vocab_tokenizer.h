// VocabTokenizer: what all tokenizer models share. Cuts a text at tokens written out in it, frames
// it with the model's special tokens, renders ids; a subclass encodes the ordinary text in between.
//
// Which tokens written out in a text are recognised:
//   user-defined  always (runs of spaces, for instance): they belong to the model's text;
//   markers       user-defined tokens of the form <...>, such as <tool_call>, only with
//                 `parse_special`: they mean structure to the model, not for users to produce;
//   control       only with `parse_special`.
// At each position the longest wins.
#ifndef CAIRN_ENGINE_TOKENIZER_VOCAB_TOKENIZER_H_
#define CAIRN_ENGINE_TOKENIZER_VOCAB_TOKENIZER_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/token_trie.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace cairn::engine {

class VocabTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const final;
  std::string TokenBytes(TokenId id, bool render_special) const final;
  std::string Decode(std::span<const TokenId> ids, bool render_special) const final;
  std::vector<TokenId> EncodePair(std::string_view first, std::string_view second, int max_tokens,
                                  std::vector<int32_t>* type_ids, bool* truncated) const final;
  int vocab_size() const final { return vocab_.size(); }
  TokenId bos() const final { return vocab_.bos; }
  TokenId eos() const final { return vocab_.eos; }
  bool IsControl(TokenId id) const final;
  std::span<const TokenId> end_of_generation() const final { return vocab_.end_of_generation; }

 protected:
  // The special tokens around one text, and between two.
  struct Frame {
    std::vector<TokenId> before;
    std::vector<TokenId> between;
    std::vector<TokenId> after;
    bool second_text_has_type_one = false;
  };

  explicit VocabTokenizer(Vocabulary vocab);

  // Encodes text without special tokens in it, which begins the whole text or follows a special
  // token where `starts_text`.
  virtual void EncodeText(std::string_view text, bool starts_text,
                          std::vector<TokenId>* ids) const = 0;
  // The bytes of a normal, unused or byte token.
  virtual std::string OrdinaryBytes(TokenId id) const = 0;
  // Whether Decode drops one space at the start of its result.
  virtual bool StripsFirstSpace() const = 0;

  void SetFrame(Frame frame) { frame_ = std::move(frame); }
  const Vocabulary& vocab() const { return vocab_; }
  // The frame that add_bos and add_eos describe; the flags' defaults are the model's.
  Frame BosEosFrame(bool default_bos, bool default_eos) const;

 private:
  Vocabulary vocab_;
  Frame frame_;
  TokenTrie in_text_;  // recognised always
  TokenTrie special_;  // recognised with parse_special; holds those of in_text_ as well
};

// The characters of a SentencePiece or WordPiece vocabulary that stand for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_VOCAB_TOKENIZER_H_
