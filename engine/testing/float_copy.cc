#include "engine/testing/float_copy.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/gguf/gguf.h"
#include "engine/gguf/gguf_writer.h"
#include "kernels/matmul.h"

namespace cairn::engine::testing {

absl::Status WriteFloatCopy(const std::string& source, const std::string& target) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(source));
  GgufWriter writer;
  for (const auto& [key, value] : file->metadata()) {
    if (const auto* v = std::get_if<std::string_view>(&value)) writer.AddString(key, *v);
    if (const auto* v = std::get_if<bool>(&value)) writer.AddBool(key, *v);
    // With 32 bits where they suffice, as other readers expect.
    if (const auto* v = std::get_if<int64_t>(&value)) {
      if (std::in_range<int32_t>(*v)) {
        writer.AddInt32(key, static_cast<int32_t>(*v));
      } else {
        writer.AddInt64(key, *v);
      }
    }
    if (const auto* v = std::get_if<uint64_t>(&value)) {
      if (std::in_range<uint32_t>(*v)) {
        writer.AddUint32(key, static_cast<uint32_t>(*v));
      } else {
        writer.AddUint64(key, *v);
      }
    }
    if (const auto* v = std::get_if<double>(&value)) writer.AddFloat(key, static_cast<float>(*v));
    if (const auto* v = std::get_if<std::vector<float>>(&value)) writer.AddFloats(key, *v);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) {
      writer.AddInts(key, std::vector<int32_t>(v->begin(), v->end()));
    }
    if (const auto* v = std::get_if<std::vector<std::string_view>>(&value)) {
      writer.AddStrings(key, std::vector<std::string>(v->begin(), v->end()));
    }
  }
  for (const GgufTensor& tensor : file->tensors()) {
    std::vector<uint8_t> bytes(tensor.num_elements() * sizeof(float));
    const size_t row_bytes = tensor.data.size() / (tensor.num_elements() / tensor.cols());
    for (int64_t row = 0; row < tensor.num_elements() / tensor.cols(); ++row) {
      kernels::DequantizeRow(tensor.type, tensor.data.data() + row * row_bytes, tensor.cols(),
                             reinterpret_cast<float*>(bytes.data()) + row * tensor.cols());
    }
    writer.AddTensor(tensor.name, kernels::DType::kF32, tensor.dims, std::move(bytes));
  }
  return writer.WriteFile(target);
}

}  // namespace cairn::engine::testing
