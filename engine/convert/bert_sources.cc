#include "engine/convert/bert_sources.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "common/strings.h"

namespace cairn::engine {
namespace {

using kernels::DType;

constexpr std::string_view kQuantized = "_quantized";

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

absl::Status BadTensor(std::string_view name, std::string_view message) {
  return absl::InvalidArgumentError(StrCat("tensor '", name, "': ", message));
}

// A quantised matrix as its integers (zero point subtracted) and one scale a column.
struct QuantizedMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<int32_t> values;
  std::vector<float> scales;  // [cols]
};

// `name` is the tensor's name without its suffix.
absl::StatusOr<QuantizedMatrix> FindQuantized(const OnnxGraph& graph, const std::string& name) {
  const auto find = [&](std::string_view suffix) -> absl::StatusOr<const OnnxTensor*> {
    const auto it = graph.initializers.find(StrCat(name, suffix));
    if (it == graph.initializers.end()) return BadTensor(name, StrCat("has no ", suffix));
    return &it->second;
  };
  CAIRN_ASSIGN_OR_RETURN(const OnnxTensor* quants, find(kQuantized));
  CAIRN_ASSIGN_OR_RETURN(const OnnxTensor* scale, find("_scale"));
  CAIRN_ASSIGN_OR_RETURN(const OnnxTensor* zero_point, find("_zero_point"));
  if (quants->dims.size() != 2 || quants->num_elements == 0 || quants->type == OnnxType::kFloat ||
      scale->type != OnnxType::kFloat || zero_point->type != quants->type ||
      zero_point->num_elements != scale->num_elements) {
    return BadTensor(name, "is no quantised matrix with scale and zero point");
  }
  QuantizedMatrix matrix{quants->dims[0], quants->dims[1], quants->ints, scale->floats};
  if (scale->num_elements != 1 && scale->num_elements != matrix.cols) {
    return BadTensor(name,
                     StrCat("has ", scale->num_elements, " scales for ", matrix.cols, " columns"));
  }
  for (const float value : matrix.scales) {
    if (!std::isfinite(value)) return BadTensor(name, "has a scale that is not finite");
  }
  matrix.scales.resize(matrix.cols, matrix.scales[0]);
  const bool one_zero = zero_point->num_elements == 1;
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    matrix.values[i] -= zero_point->ints[one_zero ? 0 : i % matrix.cols];
  }
  return matrix;
}

std::vector<float> Dequantize(const QuantizedMatrix& matrix) {
  std::vector<float> values(matrix.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(matrix.values[i]) * matrix.scales[i % matrix.cols];
  }
  return values;
}

// An embedding table: rows as they are.
BertTensor TableTensor(std::string name, const QuantizedMatrix& matrix) {
  const bool words = name == "token_embd.weight";
  const std::vector<float> values = Dequantize(matrix);
  return {std::move(name), words ? DType::kF16 : DType::kF32, matrix.rows, matrix.cols,
          words ? EncodeF16(values) : EncodeF32(values)};
}

// A factor of a product, stored [in, out]: becomes [out, in].
absl::StatusOr<BertTensor> ProductTensor(std::string name, const QuantizedMatrix& matrix) {
  const int64_t in = matrix.rows, out = matrix.cols;
  BertTensor tensor{std::move(name), DType::kQ8_0, out, in, {}};
  if (out == 1) {  // a classifier of one class: too small to save anything
    tensor.type = DType::kF32;
    tensor.data = EncodeF32(Dequantize(matrix));
    return tensor;
  }
  if (in % 32 != 0)
    return BadTensor(tensor.name, StrCat("has ", in, " inputs, not a multiple of 32"));
  std::vector<int8_t> quants(matrix.values.size());
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t o = 0; o < out; ++o) {
      const int32_t value = matrix.values[i * out + o];
      if (value < -128 || value > 127) return BadTensor(tensor.name, "does not fit signed 8 bits");
      quants[o * in + i] = static_cast<int8_t>(value);
    }
  }
  tensor.data = EncodeQ8_0(quants, matrix.scales);
  return tensor;
}

// "/bert/encoder/layer.0/attention/self/query/MatMul_quant" ->
// "bert.encoder.layer.0.attention.self.query.weight".
std::optional<std::string> ModuleOfNode(std::string_view node_name) {
  constexpr std::string_view kSuffix = "/MatMul_quant";
  if (node_name.substr(0, 1) != "/" || !EndsWith(node_name, kSuffix)) return std::nullopt;
  std::string module(node_name.substr(1, node_name.size() - 1 - kSuffix.size()));
  for (char& c : module) {
    if (c == '/') c = '.';
  }
  return module + ".weight";
}

// The Hugging Face name of the weights that a node multiplies by or looks up; nullopt when it does
// neither.
std::optional<std::string> WeightName(const OnnxNode& node, std::string_view quantized_name) {
  const std::string_view stem = quantized_name.substr(0, quantized_name.size() - kQuantized.size());
  if (EndsWith(stem, ".weight")) return std::string(stem);
  return ModuleOfNode(node.name);
}

}  // namespace

absl::StatusOr<std::vector<BertTensor>> BertFromSafetensors(std::span<const SafeTensor> tensors) {
  std::vector<BertTensor> result;
  for (const SafeTensor& tensor : tensors) {
    const std::optional<std::string> name = GgufNameOfBert(tensor.name);
    if (!name)
      return absl::UnimplementedError(StrCat("tensor '", tensor.name, "' is not part of a BERT"));
    if (name->empty()) continue;
    if (tensor.dtype != "F32" && tensor.dtype != "F16") {
      return absl::UnimplementedError(StrCat("tensor '", tensor.name, "' has type ", tensor.dtype));
    }
    if (tensor.shape.empty() || tensor.shape.size() > 2) {
      return BadTensor(tensor.name, StrCat("has ", tensor.shape.size(), " dimensions"));
    }
    const bool matrix = tensor.shape.size() == 2;
    result.push_back({*name,
                      tensor.dtype == "F32" ? DType::kF32 : DType::kF16,
                      matrix ? tensor.shape[0] : 0,
                      tensor.shape.back(),
                      {tensor.data.begin(), tensor.data.end()}});
  }
  return result;
}

absl::StatusOr<std::vector<BertTensor>> BertFromOnnx(const OnnxGraph& graph) {
  std::vector<BertTensor> result;
  for (const auto& [name, tensor] : graph.initializers) {
    const std::optional<std::string> gguf_name = GgufNameOfBert(name);
    if (!gguf_name || gguf_name->empty() || tensor.type != OnnxType::kFloat ||
        tensor.dims.size() != 1)
      continue;
    result.push_back({*gguf_name, DType::kF32, 0, tensor.dims[0], EncodeF32(tensor.floats)});
  }
  for (const OnnxNode& node : graph.nodes) {
    const bool lookup = node.op_type == "Gather";
    if (!lookup && node.op_type != "MatMulInteger") continue;
    const size_t operand = lookup ? 0 : 1;
    if (node.inputs.size() <= operand || !EndsWith(node.inputs[operand], kQuantized)) continue;
    const std::string& quantized_name = node.inputs[operand];
    if (graph.initializers.count(quantized_name) == 0) continue;
    const std::optional<std::string> name = WeightName(node, quantized_name);
    const std::optional<std::string> gguf_name = name ? GgufNameOfBert(*name) : std::nullopt;
    if (!gguf_name) {
      return absl::UnimplementedError(StrCat("node '", node.name, "' is not part of a BERT"));
    }
    CAIRN_ASSIGN_OR_RETURN(
        const QuantizedMatrix matrix,
        FindQuantized(graph, quantized_name.substr(0, quantized_name.size() - kQuantized.size())));
    if (lookup) {
      result.push_back(TableTensor(*gguf_name, matrix));
    } else {
      CAIRN_ASSIGN_OR_RETURN(BertTensor tensor, ProductTensor(*gguf_name, matrix));
      result.push_back(std::move(tensor));
    }
  }
  return result;
}

}  // namespace cairn::engine
