// Tokenizer: text to token ids and back, as the model's own tokenizer does it.
//
// Kinds, chosen from the model file's metadata: byte-level BPE (gpt2, qwen2, llama3, smollm, mpt
// pre-tokenisers), SentencePiece BPE with byte fallback, SentencePiece unigram, WordPiece.
//
// Control tokens: user text never becomes one. Encode treats "<|im_end|>" in `text` as ordinary
// text unless `parse_special` is set, which only the chat template renderer does, for its own
// literal parts. The same holds for markers, user-defined tokens of the form <...> such as
// <tool_call>; other user-defined tokens (runs of spaces) are always recognised.
//
// Threads: thread-safe, immutable after Load. Time is linear (up to a log factor) in the text.
#ifndef CAIRN_ENGINE_TOKENIZER_TOKENIZER_H_
#define CAIRN_ENGINE_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "engine/gguf/gguf.h"

namespace cairn::engine {

using TokenId = int32_t;

struct EncodeOptions {
  // Adds what the model expects around a text: BOS, CLS/SEP, <s>/</s>. Templates that hold their
  // own BOS are encoded without.
  bool add_special = false;
  // Recognises control tokens written out in the text.
  bool parse_special = false;
};

class Tokenizer {
 public:
  // Copies what it needs: `file` may be closed afterwards. INVALID_ARGUMENT for a vocabulary that
  // contradicts itself, UNIMPLEMENTED naming a tokenizer model or pre-tokeniser that we do not
  // know.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);
  virtual ~Tokenizer() = default;

  // Ill-formed UTF-8 is encoded as U+FFFD, byte by byte, or as raw bytes where the vocabulary has
  // them. REQUIRES: text is at most 1 GiB.
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const = 0;

  // The bytes of one token as they appear in the output stream: may be part of a UTF-8 character.
  // Control tokens give "" unless `render_special`. REQUIRES: 0 <= id < vocab_size().
  virtual std::string TokenBytes(TokenId id, bool render_special = false) const = 0;
  // The text of a whole sequence (leading-space rules applied once, at its start).
  virtual std::string Decode(std::span<const TokenId> ids, bool render_special = false) const = 0;

  // Two texts in one sequence for a cross-encoder; `type_ids` gets 0 and 1 where the model has
  // token types. `max_tokens` (0 = no limit) cuts the second text only; `*truncated` says whether
  // it did. A first text that leaves no room is kept whole: the result is then longer than
  // `max_tokens`, and the caller decides.
  virtual std::vector<TokenId> EncodePair(std::string_view first, std::string_view second,
                                          int max_tokens, std::vector<int32_t>* type_ids,
                                          bool* truncated) const = 0;

  virtual int vocab_size() const = 0;
  virtual TokenId bos() const = 0;  // -1 when the model has none; likewise below
  virtual TokenId eos() const = 0;
  virtual bool IsControl(TokenId id) const = 0;
  // Every id that ends a generation (eos, and end-of-turn tokens such as <|im_end|>).
  virtual std::span<const TokenId> end_of_generation() const = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_TOKENIZER_H_
