// ONNX: the initializers and nodes of a model's main graph, read from the protobuf wire format.
//
// Only the fields that a weight converter needs are read, others are skipped, as are initializers
// of types other than FLOAT, INT8 and UINT8. UNIMPLEMENTED for weights kept outside of the file;
// OUT_OF_RANGE or INVALID_ARGUMENT for a damaged file. Format:
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto,
// https://protobuf.dev/programming-guides/encoding
#ifndef CAIRN_ENGINE_CONVERT_ONNX_H_
#define CAIRN_ENGINE_CONVERT_ONNX_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cairn::engine {

enum class OnnxType : int32_t { kFloat = 1, kUint8 = 2, kInt8 = 3 };

struct OnnxTensor {
  std::string name;
  OnnxType type;
  std::vector<int64_t> dims;
  int64_t num_elements = 0;
  // Exactly one holds all the elements.
  std::vector<float> floats;
  std::vector<int32_t> ints;
};

struct OnnxNode {
  std::string name;
  std::string op_type;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

struct OnnxGraph {
  std::map<std::string, OnnxTensor, std::less<>> initializers;  // those of the types above
  std::vector<OnnxNode> nodes;
};

absl::StatusOr<OnnxGraph> ParseOnnx(std::span<const uint8_t> bytes);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_ONNX_H_
