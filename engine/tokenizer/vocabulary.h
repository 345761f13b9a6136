// Vocabulary: the tokenizer section of a model file, checked and copied.
//
// Threads: immutable after FromGguf.
// Errors:  INVALID_ARGUMENT when arrays differ in length, an id lies outside the vocabulary, or a
//          type or score is none.
#ifndef CAIRN_ENGINE_TOKENIZER_VOCABULARY_H_
#define CAIRN_ENGINE_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

// Numbers as in tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Longer pieces are refused: prefix searches cost up to this much per byte of text.
constexpr size_t kMaxTokenBytes = 1024;

struct Vocabulary {
  static absl::StatusOr<Vocabulary> FromGguf(const GgufFile& file);

  int size() const { return static_cast<int>(texts.size()); }

  std::vector<std::string> texts;  // as in the file: byte-level vocabularies are still encoded
  std::vector<TokenType> types;    // [size]
  std::vector<float> scores;       // [size], or empty when the file has none

  TokenId bos = -1;  // CLS for encoders
  TokenId eos = -1;  // SEP for encoders
  TokenId unk = -1;
  std::vector<TokenId> end_of_generation;

  // Unset where the file is silent: each tokenizer model has its own default.
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_VOCABULARY_H_
