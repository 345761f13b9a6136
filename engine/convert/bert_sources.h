// Weights of a BERT out of the formats that models are published in.
#ifndef CAIRN_ENGINE_CONVERT_BERT_SOURCES_H_
#define CAIRN_ENGINE_CONVERT_BERT_SOURCES_H_

#include <span>
#include <vector>

#include "common/status.h"
#include "engine/convert/bert_gguf.h"
#include "engine/convert/onnx.h"
#include "engine/convert/safetensors.h"

namespace cairn::engine {

// A Hugging Face checkpoint in F32 or F16, kept as it is.
absl::StatusOr<std::vector<BertTensor>> BertFromSafetensors(std::span<const SafeTensor> tensors);

// A Hugging Face export after onnxruntime's dynamic quantisation. Matrices keep their int8 values
// as Q8_0 (only the scale is rounded, to half precision); word embeddings, whose zero point needs a
// ninth bit, become F16; the small tables F32.
absl::StatusOr<std::vector<BertTensor>> BertFromOnnx(const OnnxGraph& graph);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_BERT_SOURCES_H_
