#include "engine/convert/onnx.h"

#include <cstring>
#include <optional>
#include <utility>

#include "common/checked_math.h"
#include "common/strings.h"
#include "engine/convert/proto_reader.h"

namespace cairn::engine {
namespace {

using Wire = ProtoField::Wire;

absl::Status Bad(std::string_view name, std::string_view message) {
  return absl::InvalidArgumentError(StrCat("ONNX: tensor '", name, "': ", message));
}

// A repeated number: one value, or several packed into bytes.
template <typename Append>
absl::Status ReadVarints(const ProtoField& field, Append append) {
  if (field.wire == Wire::kVarint) {
    append(field.value);
    return absl::OkStatus();
  }
  if (field.wire != Wire::kBytes)
    return absl::InvalidArgumentError("ONNX: a number has a wrong wire type");
  ProtoReader reader(field.bytes);
  while (!reader.done()) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t value, reader.Varint());
    append(value);
  }
  return absl::OkStatus();
}

absl::Status ReadFloats(const ProtoField& field, std::vector<float>* out) {
  if (field.wire == Wire::kFixed32) {
    float value;
    std::memcpy(&value, &field.value, sizeof(value));
    out->push_back(value);
    return absl::OkStatus();
  }
  if (field.wire != Wire::kBytes || field.bytes.size() % sizeof(float) != 0) {
    return absl::InvalidArgumentError("ONNX: float_data has a wrong wire type or length");
  }
  const size_t before = out->size();
  out->resize(before + field.bytes.size() / sizeof(float));
  if (!field.bytes.empty())
    std::memcpy(out->data() + before, field.bytes.data(), field.bytes.size());
  return absl::OkStatus();
}

// The elements out of raw_data, checked against the shape.
absl::Status Unpack(std::span<const uint8_t> raw, OnnxTensor* tensor) {
  const uint64_t width = tensor->type == OnnxType::kFloat ? sizeof(float) : 1;
  if (raw.size() != static_cast<uint64_t>(tensor->num_elements) * width) {
    return Bad(tensor->name,
               StrCat("has ", raw.size(), " bytes for ", tensor->num_elements, " elements"));
  }
  switch (tensor->type) {
    case OnnxType::kFloat:
      tensor->floats.resize(tensor->num_elements);
      if (!raw.empty()) std::memcpy(tensor->floats.data(), raw.data(), raw.size());
      break;
    case OnnxType::kUint8:
      tensor->ints.assign(raw.begin(), raw.end());
      break;
    case OnnxType::kInt8:
      tensor->ints.reserve(raw.size());
      for (const uint8_t byte : raw) tensor->ints.push_back(static_cast<int8_t>(byte));
      break;
  }
  return absl::OkStatus();
}

// nullopt for a tensor of a type that we do not use.
absl::StatusOr<std::optional<OnnxTensor>> ReadTensor(std::span<const uint8_t> message) {
  OnnxTensor tensor{};
  uint64_t type = 0;
  std::optional<std::span<const uint8_t>> raw;
  bool external = false;
  ProtoReader reader(message);
  while (!reader.done()) {
    CAIRN_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    absl::Status status;
    switch (field.number) {
      case 1:
        status =
            ReadVarints(field, [&](uint64_t v) { tensor.dims.push_back(static_cast<int64_t>(v)); });
        break;
      case 2:
        type = field.value;
        break;
      case 4:
        status = ReadFloats(field, &tensor.floats);
        break;
      case 5:
        status =
            ReadVarints(field, [&](uint64_t v) { tensor.ints.push_back(static_cast<int32_t>(v)); });
        break;
      case 8:
        tensor.name = std::string(field.text());
        break;
      case 9:
        raw = field.bytes;
        break;
      case 14:
        external = field.value == 1;
        break;
      default:
        break;
    }
    CAIRN_RETURN_IF_ERROR(status);
  }
  if (type < 1 || type > 3) return std::nullopt;
  tensor.type = static_cast<OnnxType>(type);
  if (external)
    return absl::UnimplementedError(StrCat("ONNX: tensor '", tensor.name, "' is in another file"));
  tensor.num_elements = 1;
  for (const int64_t dim : tensor.dims) {
    if (dim < 0 || !CheckedMul(tensor.num_elements, dim, &tensor.num_elements)) {
      return Bad(tensor.name, "has a negative or too large dimension");
    }
  }
  if (raw) {
    if (!tensor.floats.empty() || !tensor.ints.empty())
      return Bad(tensor.name, "has its data twice");
    CAIRN_RETURN_IF_ERROR(Unpack(*raw, &tensor));
  } else {
    const size_t have = tensor.type == OnnxType::kFloat ? tensor.floats.size() : tensor.ints.size();
    const size_t other =
        tensor.type == OnnxType::kFloat ? tensor.ints.size() : tensor.floats.size();
    if (have != static_cast<uint64_t>(tensor.num_elements) || other != 0) {
      return Bad(tensor.name,
                 StrCat("has ", have, " values for ", tensor.num_elements, " elements"));
    }
    const auto [low, high] =
        tensor.type == OnnxType::kInt8 ? std::pair(-128, 127) : std::pair(0, 255);
    for (const int32_t value : tensor.ints) {
      if (value < low || value > high) return Bad(tensor.name, "has a value beyond its type");
    }
  }
  return tensor;
}

absl::StatusOr<OnnxNode> ReadNode(std::span<const uint8_t> message) {
  OnnxNode node;
  ProtoReader reader(message);
  while (!reader.done()) {
    CAIRN_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    switch (field.number) {
      case 1:
        node.inputs.emplace_back(field.text());
        break;
      case 2:
        node.outputs.emplace_back(field.text());
        break;
      case 3:
        node.name = std::string(field.text());
        break;
      case 4:
        node.op_type = std::string(field.text());
        break;
      default:
        break;
    }
  }
  return node;
}

}  // namespace

absl::StatusOr<OnnxGraph> ParseOnnx(std::span<const uint8_t> bytes) {
  constexpr uint32_t kModelGraph = 7, kGraphNode = 1, kGraphInitializer = 5;
  std::optional<std::span<const uint8_t>> graph_bytes;
  ProtoReader model(bytes);
  while (!model.done()) {
    CAIRN_ASSIGN_OR_RETURN(const ProtoField field, model.Next());
    if (field.number == kModelGraph && field.wire == Wire::kBytes) graph_bytes = field.bytes;
  }
  if (!graph_bytes) return absl::InvalidArgumentError("ONNX: the file has no graph");
  OnnxGraph graph;
  ProtoReader reader(*graph_bytes);
  while (!reader.done()) {
    CAIRN_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    if (field.wire != Wire::kBytes) continue;
    if (field.number == kGraphNode) {
      CAIRN_ASSIGN_OR_RETURN(OnnxNode node, ReadNode(field.bytes));
      graph.nodes.push_back(std::move(node));
    } else if (field.number == kGraphInitializer) {
      CAIRN_ASSIGN_OR_RETURN(std::optional<OnnxTensor> tensor, ReadTensor(field.bytes));
      if (!tensor) continue;
      const std::string name = tensor->name;
      if (!graph.initializers.emplace(name, *std::move(tensor)).second)
        return Bad(name, "appears twice");
    }
  }
  return graph;
}

}  // namespace cairn::engine
