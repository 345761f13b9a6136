// A BERT vocabulary file (vocab.txt, one piece a line, its id the line number) as GGUF keys.
#ifndef CAIRN_ENGINE_CONVERT_WORDPIECE_VOCAB_H_
#define CAIRN_ENGINE_CONVERT_WORDPIECE_VOCAB_H_

#include <string_view>

#include "common/status.h"
#include "engine/gguf/gguf_writer.h"

namespace cairn::engine {

// Adds an uncased WordPiece vocabulary as llama.cpp stores it: pieces that begin a word get U+2581
// in front, "##" is dropped from the others. INVALID_ARGUMENT when [PAD], [UNK], [CLS], [SEP] or
// [MASK] is missing or the number of pieces is not `rows`, the rows of the embedding table.
absl::Status AddWordPieceVocabulary(std::string_view vocab_txt, int64_t rows, GgufWriter* writer);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_WORDPIECE_VOCAB_H_
