// StreamDecoder: token ids to text that a reader can show at once: it never ends inside a
// character.
//
// Ill-formed bytes become U+FFFD, each one; the same text comes out whatever the cuts between
// tokens. Control tokens give nothing.
//
// Ownership: the tokenizer must outlive the decoder. Threads: thread-compatible, one per stream.
#ifndef CAIRN_ENGINE_TOKENIZER_STREAM_DECODER_H_
#define CAIRN_ENGINE_TOKENIZER_STREAM_DECODER_H_

#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The text that is complete now: whole characters, perhaps none.
  std::string Feed(TokenId id);
  // What was held back, at the end of the stream: its bytes can no longer become a character.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;  // the beginning of a character
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_STREAM_DECODER_H_
