// What all encoder converters share: tensor names, shape checks, metadata.
#ifndef CAIRN_ENGINE_CONVERT_BERT_GGUF_H_
#define CAIRN_ENGINE_CONVERT_BERT_GGUF_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "engine/gguf/gguf_writer.h"
#include "kernels/dtype.h"

namespace cairn::engine {

// What the weights do not say themselves.
struct BertTraits {
  std::string name;          // general.name
  std::string license;       // general.license
  std::string pooling;       // "mean", "cls", or "rank" for a cross-encoder
  int context_length = 512;  // tokens the model was trained for, at most its number of positions
  int num_heads = 0;
  float layer_norm_epsilon = 0;
  std::string query_prefix;
  std::string passage_prefix;
};

// A matrix [rows, cols] as the original has it, [out, in]; a vector has rows = 0.
struct BertTensor {
  std::string name;  // in the GGUF file
  kernels::DType type;
  int64_t rows;
  int64_t cols;
  std::vector<uint8_t> data;  // in the layout of `type`
};

// "bert.encoder.layer.3.output.dense.weight" -> "blk.3.ffn_down.weight"; with or without "bert." in
// front. Empty for a tensor that no forward pass needs (position_ids); nullopt when the name is not
// one of BERT's.
std::optional<std::string> GgufNameOfBert(std::string_view hugging_face_name);

// Checks that the tensors are one whole BERT with consistent shapes and adds metadata and tensors
// to `writer`, in a fixed order; a pooler without a classifier is left out. Vocabulary keys are the
// caller's. INVALID_ARGUMENT naming the tensor that is missing, of a wrong shape, or more than
// there should be.
absl::Status AddBert(const BertTraits& traits, std::vector<BertTensor> tensors, GgufWriter* writer);

// Rows of floats in another type. Values must be finite; Q8_0 needs cols that are a multiple of 32.
std::vector<uint8_t> EncodeF32(std::span<const float> values);
std::vector<uint8_t> EncodeF16(std::span<const float> values);
// `quants` [rows, cols] with one scale a row: exact but for the scale, which is rounded to half
// precision.
std::vector<uint8_t> EncodeQ8_0(std::span<const int8_t> quants, std::span<const float> row_scales);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_BERT_GGUF_H_
