#include "engine/gguf/gguf_writer.h"

#include <type_traits>
#include <utility>

#include "common/checked_math.h"
#include "common/file.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

constexpr uint64_t kAlignment = 32;  // the format's default

// Numbers of the value types, as in the format's description.
enum ValueType : uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
};

template <typename T>
void Put(std::string* out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(std::string* out, std::string_view value) {
  Put<uint64_t>(out, value.size());
  out->append(value);
}

void Pad(std::string* out) {
  out->resize((out->size() + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

void GgufWriter::BeginValue(std::string_view key, uint32_t type) {
  if (!keys_.emplace(key).second && status_.ok()) {
    status_ = absl::InvalidArgumentError(StrCat("GGUF: metadata key '", key, "' is added twice"));
  }
  PutString(&metadata_, key);
  Put(&metadata_, type);
}

void GgufWriter::BeginArray(std::string_view key, uint32_t element_type, uint64_t count) {
  BeginValue(key, kArray);
  Put(&metadata_, element_type);
  Put(&metadata_, count);
}

void GgufWriter::AddBool(std::string_view key, bool value) {
  BeginValue(key, kBool);
  Put<uint8_t>(&metadata_, value);
}
void GgufWriter::AddInt32(std::string_view key, int32_t value) {
  BeginValue(key, kInt32);
  Put(&metadata_, value);
}
void GgufWriter::AddUint32(std::string_view key, uint32_t value) {
  BeginValue(key, kUint32);
  Put(&metadata_, value);
}
void GgufWriter::AddInt64(std::string_view key, int64_t value) {
  BeginValue(key, kInt64);
  Put(&metadata_, value);
}
void GgufWriter::AddUint64(std::string_view key, uint64_t value) {
  BeginValue(key, kUint64);
  Put(&metadata_, value);
}
void GgufWriter::AddFloat(std::string_view key, float value) {
  BeginValue(key, kFloat32);
  Put(&metadata_, value);
}
void GgufWriter::AddString(std::string_view key, std::string_view value) {
  BeginValue(key, kString);
  PutString(&metadata_, value);
}
void GgufWriter::AddStrings(std::string_view key, std::span<const std::string> values) {
  BeginArray(key, kString, values.size());
  for (const std::string& value : values) PutString(&metadata_, value);
}
void GgufWriter::AddInts(std::string_view key, std::span<const int32_t> values) {
  BeginArray(key, kInt32, values.size());
  for (int32_t value : values) Put(&metadata_, value);
}
void GgufWriter::AddFloats(std::string_view key, std::span<const float> values) {
  BeginArray(key, kFloat32, values.size());
  for (float value : values) Put(&metadata_, value);
}
void GgufWriter::AddBools(std::string_view key, const std::vector<bool>& values) {
  BeginArray(key, kBool, values.size());
  for (bool value : values) Put<uint8_t>(&metadata_, value);
}

void GgufWriter::AddTensor(std::string_view name, kernels::DType type, std::vector<int64_t> dims,
                           std::vector<uint8_t> data) {
  const kernels::DTypeInfo& layout = kernels::Info(type);
  bool valid = !dims.empty() && dims.size() <= 4 && dims[0] % layout.block_elements == 0;
  int64_t elements = 1;
  for (int64_t dim : dims) valid = valid && dim > 0 && CheckedMul(elements, dim, &elements);
  int64_t expected = 0;
  valid =
      valid && CheckedMul<int64_t>(elements / layout.block_elements, layout.block_bytes, &expected);
  valid = valid && static_cast<uint64_t>(expected) == data.size();
  if (!valid && status_.ok()) {
    status_ = absl::InvalidArgumentError(StrCat("GGUF: tensor '", name, "': ", data.size(),
                                                " bytes do not match its shape as ", layout.name));
  }
  if (!tensor_names_.emplace(name).second && status_.ok()) {
    status_ = absl::InvalidArgumentError(StrCat("GGUF: tensor '", name, "' is added twice"));
  }
  tensors_.push_back({std::string(name), type, std::move(dims), std::move(data)});
}

absl::StatusOr<std::string> GgufWriter::Serialize() const {
  if (!status_.ok()) return status_;
  std::string out = "GGUF";
  Put<uint32_t>(&out, 3);
  Put<uint64_t>(&out, tensors_.size());
  Put<uint64_t>(&out, keys_.size());
  out += metadata_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    PutString(&out, tensor.name);
    Put<uint32_t>(&out, static_cast<uint32_t>(tensor.dims.size()));
    for (int64_t dim : tensor.dims) Put(&out, dim);
    Put<uint32_t>(&out, static_cast<uint32_t>(tensor.type));
    Put<uint64_t>(&out, offset);
    offset += (tensor.data.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  Pad(&out);
  out.reserve(out.size() + offset);
  for (const Tensor& tensor : tensors_) {
    out.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    Pad(&out);
  }
  return out;
}

absl::Status GgufWriter::WriteFile(const std::string& path) const {
  CAIRN_ASSIGN_OR_RETURN(std::string bytes, Serialize());
  return WriteFileAtomic(path, bytes);
}

}  // namespace cairn::engine
