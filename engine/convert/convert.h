// ConvertEncoder: makes a GGUF file (architecture "bert") out of an encoder's original files.
//
// Formats:
//   e5s1         model.bin: the container of a 4-bit multilingual-e5-small; its blocks are copied
//   byte for byte safetensors  model.safetensors (F32 or F16, Hugging Face names) and vocab.txt
//   (WordPiece) onnx         model.onnx (Hugging Face export, dynamically quantised to int8) and
//   vocab.txt
//
// Tensor names and keys are those of llama.cpp's BERT, the pooler and classifier of a cross-encoder
// are cls.* and cls.output.*; our own keys are cairn.embedding.query_prefix and
// cairn.embedding.passage_prefix. The same input always gives the same bytes.
//
// Errors: INVALID_ARGUMENT or OUT_OF_RANGE naming the field or tensor for a damaged file,
// UNIMPLEMENTED for a
//         sound one that is no such encoder; NOT_FOUND for a missing source file.
// Memory: about three times the model.
#ifndef CAIRN_ENGINE_CONVERT_CONVERT_H_
#define CAIRN_ENGINE_CONVERT_CONVERT_H_

#include <string>

#include "common/status.h"
#include "engine/convert/bert_gguf.h"

namespace cairn::engine {

enum class EncoderFormat { kE5s1, kSafetensors, kOnnx };

// Reads the format's files from `source_dir` and replaces `gguf_path` atomically.
absl::Status ConvertEncoder(EncoderFormat format, const std::string& source_dir,
                            const BertTraits& traits, const std::string& gguf_path);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_CONVERT_H_
