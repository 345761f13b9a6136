#include "engine/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "common/checked_math.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they lie in the file");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// Limits far above any real model, so that a small hostile file cannot ask for much memory: the
// largest vocabularies have half a million merges, and an array element costs at most 16 bytes once
// read.
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 24;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint32_t kMaxDims = 4;
// The least bytes that one entry can take: bounds the counts in the header by the file's size.
constexpr uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

enum ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// The only code that touches the bytes. Every read says whether it fitted; a failed one moves
// nothing.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  [[nodiscard]] bool Read(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool ReadString(std::string_view* value) {
    uint64_t start = position_;
    uint64_t length = 0;
    if (!Read(&length)) return false;
    if (length > remaining()) {
      position_ = start;
      return false;
    }
    *value = {reinterpret_cast<const char*>(bytes_.data() + position_), length};
    position_ += length;
    return true;
  }

  absl::Status EndsInside(std::string_view what) const {
    return absl::OutOfRangeError(StrCat("GGUF: the file ends, or a length points past its end, in ",
                                        what, " at byte ", position_, " of ", bytes_.size()));
  }

 private:
  std::span<const uint8_t> bytes_;
  uint64_t position_ = 0;
};

absl::Status Invalid(std::string_view what, std::string_view message) {
  return absl::InvalidArgumentError(StrCat("GGUF: ", what, ": ", message));
}

template <typename T>
absl::StatusOr<T> ReadNumber(Reader& reader, std::string_view what) {
  T value;
  if (!reader.Read(&value)) return reader.EndsInside(what);
  return value;
}

absl::StatusOr<bool> ReadBool(Reader& reader, std::string_view what) {
  CAIRN_ASSIGN_OR_RETURN(uint8_t byte, ReadNumber<uint8_t>(reader, what));
  if (byte > 1) return Invalid(what, StrCat("boolean with byte value ", int{byte}));
  return byte == 1;
}

// Reads `count` numbers stored as T into a vector of the wider kind. REQUIRES: they fit in the
// file.
template <typename T, typename Wide>
absl::StatusOr<GgufValue> ReadArray(Reader& reader, uint64_t count, std::string_view what) {
  std::vector<Wide> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    CAIRN_ASSIGN_OR_RETURN(T value, ReadNumber<T>(reader, what));
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Invalid(what,
                       StrCat("element ", i, " is ", value, ", above the signed 64-bit range"));
      }
    }
    out[i] = static_cast<Wide>(value);
  }
  return GgufValue(std::move(out));
}

// Bytes of one element in the file, at least; 0 for what cannot be an element.
uint64_t ElementBytes(uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool:
      return 1;
    case kUint16:
    case kInt16:
      return 2;
    case kUint32:
    case kInt32:
    case kFloat32:
      return 4;
    case kUint64:
    case kInt64:
    case kFloat64:
    case kString:  // its length
      return 8;
    default:
      return 0;
  }
}

absl::StatusOr<GgufValue> ReadArrayValue(Reader& reader, uint64_t* element_budget,
                                         std::string_view what) {
  CAIRN_ASSIGN_OR_RETURN(uint32_t type, ReadNumber<uint32_t>(reader, what));
  CAIRN_ASSIGN_OR_RETURN(uint64_t count, ReadNumber<uint64_t>(reader, what));
  uint64_t element_bytes = ElementBytes(type);
  if (element_bytes == 0) {
    return Invalid(what, type == kArray ? std::string("arrays of arrays are not supported")
                                        : StrCat("unknown array element type ", type));
  }
  if (count > reader.remaining() / element_bytes) {
    return absl::OutOfRangeError(StrCat("GGUF: ", what, ": array of ", count,
                                        " elements, but only ", reader.remaining(),
                                        " bytes follow"));
  }
  if (count > *element_budget) {
    return absl::OutOfRangeError(StrCat("GGUF: ", what, ": array of ", count,
                                        " elements; all arrays together may have ",
                                        kMaxArrayElements));
  }
  *element_budget -= count;
  switch (type) {
    case kUint8:
      return ReadArray<uint8_t, int64_t>(reader, count, what);
    case kInt8:
      return ReadArray<int8_t, int64_t>(reader, count, what);
    case kUint16:
      return ReadArray<uint16_t, int64_t>(reader, count, what);
    case kInt16:
      return ReadArray<int16_t, int64_t>(reader, count, what);
    case kUint32:
      return ReadArray<uint32_t, int64_t>(reader, count, what);
    case kInt32:
      return ReadArray<int32_t, int64_t>(reader, count, what);
    case kUint64:
      return ReadArray<uint64_t, int64_t>(reader, count, what);
    case kInt64:
      return ReadArray<int64_t, int64_t>(reader, count, what);
    case kFloat32:
      return ReadArray<float, float>(reader, count, what);
    case kFloat64:
      return ReadArray<double, float>(reader, count, what);
    case kBool: {
      std::vector<bool> out(count);
      for (uint64_t i = 0; i < count; ++i) {
        CAIRN_ASSIGN_OR_RETURN(bool value, ReadBool(reader, what));
        out[i] = value;
      }
      return GgufValue(std::move(out));
    }
    default: {  // kString
      std::vector<std::string_view> out(count);
      for (std::string_view& value : out) {
        if (!reader.ReadString(&value)) return reader.EndsInside(what);
      }
      return GgufValue(std::move(out));
    }
  }
}

// Widens a number of the file's type T to the variant's `Wide`.
template <typename T, typename Wide>
absl::StatusOr<GgufValue> ReadWide(Reader& reader, std::string_view what) {
  CAIRN_ASSIGN_OR_RETURN(T value, ReadNumber<T>(reader, what));
  return GgufValue(std::in_place_type<Wide>, value);
}

absl::StatusOr<GgufValue> ReadValue(Reader& reader, uint64_t* element_budget,
                                    std::string_view what) {
  CAIRN_ASSIGN_OR_RETURN(uint32_t type, ReadNumber<uint32_t>(reader, what));
  switch (type) {
    case kUint8:
      return ReadWide<uint8_t, uint64_t>(reader, what);
    case kUint16:
      return ReadWide<uint16_t, uint64_t>(reader, what);
    case kUint32:
      return ReadWide<uint32_t, uint64_t>(reader, what);
    case kUint64:
      return ReadWide<uint64_t, uint64_t>(reader, what);
    case kInt8:
      return ReadWide<int8_t, int64_t>(reader, what);
    case kInt16:
      return ReadWide<int16_t, int64_t>(reader, what);
    case kInt32:
      return ReadWide<int32_t, int64_t>(reader, what);
    case kInt64:
      return ReadWide<int64_t, int64_t>(reader, what);
    case kFloat32:
      return ReadWide<float, double>(reader, what);
    case kFloat64:
      return ReadWide<double, double>(reader, what);
    case kBool: {
      CAIRN_ASSIGN_OR_RETURN(bool value, ReadBool(reader, what));
      return GgufValue(value);
    }
    case kString: {
      std::string_view value;
      if (!reader.ReadString(&value)) return reader.EndsInside(what);
      return GgufValue(value);
    }
    case kArray:
      return ReadArrayValue(reader, element_budget, what);
    default:
      return Invalid(what, StrCat("unknown value type ", type));
  }
}

absl::StatusOr<std::string_view> ReadName(Reader& reader, uint64_t max_bytes,
                                          std::string_view what) {
  std::string_view name;
  if (!reader.ReadString(&name)) return reader.EndsInside(what);
  if (name.empty() || name.size() > max_bytes) {
    return Invalid(what, StrCat("name of ", name.size(), " bytes, allowed are 1 to ", max_bytes));
  }
  return name;
}

struct TensorInfo {
  GgufTensor tensor;
  uint64_t offset;  // from the start of the data section
  uint64_t size;    // bytes
};

absl::StatusOr<TensorInfo> ReadTensorInfo(Reader& reader, uint64_t index) {
  std::string what = StrCat("tensor ", index);
  CAIRN_ASSIGN_OR_RETURN(std::string_view name, ReadName(reader, kMaxTensorNameBytes, what));
  what = StrCat("tensor '", name, "'");
  TensorInfo info;
  info.tensor.name = name;

  CAIRN_ASSIGN_OR_RETURN(uint32_t num_dims, ReadNumber<uint32_t>(reader, what));
  if (num_dims < 1 || num_dims > kMaxDims) {
    return Invalid(what, StrCat(num_dims, " dimensions, allowed are 1 to ", kMaxDims));
  }
  int64_t elements = 1;
  for (uint32_t d = 0; d < num_dims; ++d) {
    CAIRN_ASSIGN_OR_RETURN(int64_t dim, ReadNumber<int64_t>(reader, what));
    if (dim < 1 || !CheckedMul(elements, dim, &elements)) {
      return Invalid(what, StrCat("dimension ", d, " is ", static_cast<uint64_t>(dim),
                                  ": not positive, or the number of elements overflows"));
    }
    info.tensor.dims.push_back(dim);
  }

  CAIRN_ASSIGN_OR_RETURN(uint32_t type_number, ReadNumber<uint32_t>(reader, what));
  std::optional<kernels::DType> type = kernels::DTypeFromGgml(type_number);
  if (!type.has_value()) {
    return absl::UnimplementedError(
        StrCat("GGUF: ", what, ": element type ", type_number, " is not supported"));
  }
  info.tensor.type = *type;
  const kernels::DTypeInfo& layout = kernels::Info(*type);
  if (info.tensor.dims[0] % layout.block_elements != 0) {
    return Invalid(what, StrCat("rows of ", info.tensor.dims[0], " elements do not divide into ",
                                layout.name, " blocks of ", layout.block_elements));
  }
  if (!CheckedMul<uint64_t>(elements / layout.block_elements, layout.block_bytes, &info.size)) {
    return Invalid(what, StrCat("the size of ", elements, " elements overflows"));
  }
  CAIRN_ASSIGN_OR_RETURN(info.offset, ReadNumber<uint64_t>(reader, what));
  return info;
}

// Points the tensors into the data section. Overlap is refused: no writer makes it, and tensors
// that share bytes would hide a crafted directory.
absl::Status PlaceTensors(std::span<const uint8_t> data, uint64_t alignment,
                          std::vector<TensorInfo>& infos) {
  for (TensorInfo& info : infos) {
    std::string what = StrCat("tensor '", info.tensor.name, "'");
    if (info.offset % alignment != 0) {
      return Invalid(
          what, StrCat("offset ", info.offset, " is not a multiple of the alignment ", alignment));
    }
    if (info.offset > data.size() || info.size > data.size() - info.offset) {
      return absl::OutOfRangeError(StrCat("GGUF: ", what, ": ", info.size, " bytes at offset ",
                                          info.offset, " of a data section of ", data.size()));
    }
    info.tensor.data = data.subspan(info.offset, info.size);
  }
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& info : infos) order.push_back(&info);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset - order[i - 1]->offset < order[i - 1]->size) {
      return Invalid(
          StrCat("tensor '", order[i]->tensor.name, "'"),
          StrCat("overlaps tensor '", order[i - 1]->tensor.name, "' at offset ", order[i]->offset));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<const T*> Get(const GgufFile& file, std::string_view key, std::string_view kind) {
  auto it = file.metadata().find(key);
  if (it == file.metadata().end()) {
    return absl::NotFoundError(StrCat("GGUF: no metadata key '", key, "'"));
  }
  if (const T* value = std::get_if<T>(&it->second)) return value;
  return Invalid(StrCat("metadata key '", key, "'"), StrCat("is not ", kind));
}

}  // namespace

int64_t GgufTensor::num_elements() const {
  int64_t product = 1;  // checked when the file was opened
  for (int64_t dim : dims) product *= dim;
  return product;
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped, MappedFile::Open(path));
  absl::StatusOr<std::unique_ptr<GgufFile>> file = Parse(mapped->bytes());
  if (!file.ok()) return Annotate(file.status(), path);
  (*file)->file_ = std::move(mapped);
  return file;
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  CAIRN_ASSIGN_OR_RETURN(uint32_t magic, ReadNumber<uint32_t>(reader, "the magic"));
  if (magic != kMagic) return Invalid("the magic", "this is not a GGUF file");
  CAIRN_ASSIGN_OR_RETURN(uint32_t version, ReadNumber<uint32_t>(reader, "the version"));
  if ((version & 0xFFFF) == 0) return Invalid("the version", "the file is big-endian");
  if (version != 2 && version != 3) {
    return Invalid("the version", StrCat(version, " is not supported, only 2 and 3 are"));
  }
  CAIRN_ASSIGN_OR_RETURN(uint64_t num_tensors, ReadNumber<uint64_t>(reader, "the tensor count"));
  CAIRN_ASSIGN_OR_RETURN(uint64_t num_metadata, ReadNumber<uint64_t>(reader, "the metadata count"));
  if (num_metadata > reader.remaining() / kMinMetadataBytes ||
      num_tensors > reader.remaining() / kMinTensorInfoBytes) {
    return absl::OutOfRangeError(StrCat("GGUF: the header promises ", num_tensors, " tensors and ",
                                        num_metadata, " metadata keys, but only ",
                                        reader.remaining(), " bytes follow"));
  }

  auto file = std::unique_ptr<GgufFile>(new GgufFile());
  uint64_t element_budget = kMaxArrayElements;
  for (uint64_t i = 0; i < num_metadata; ++i) {
    CAIRN_ASSIGN_OR_RETURN(std::string_view key,
                           ReadName(reader, kMaxKeyBytes, StrCat("metadata key ", i)));
    std::string what = StrCat("metadata key '", key, "'");
    CAIRN_ASSIGN_OR_RETURN(GgufValue value, ReadValue(reader, &element_budget, what));
    if (!file->metadata_.try_emplace(std::string(key), std::move(value)).second) {
      return Invalid(what, "occurs twice");
    }
  }

  uint64_t alignment = kDefaultAlignment;
  if (file->Has("general.alignment")) {
    CAIRN_ASSIGN_OR_RETURN(int64_t value, file->GetInt("general.alignment"));
    if (value < 8 || static_cast<uint64_t>(value) > kMaxAlignment ||
        !std::has_single_bit(static_cast<uint64_t>(value))) {
      return Invalid("metadata key 'general.alignment'",
                     StrCat(value, " is not a power of two from 8 to ", kMaxAlignment));
    }
    alignment = static_cast<uint64_t>(value);
  }

  std::vector<TensorInfo> infos;
  infos.reserve(num_tensors);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    CAIRN_ASSIGN_OR_RETURN(TensorInfo info, ReadTensorInfo(reader, i));
    if (!file->tensor_index_.try_emplace(info.tensor.name, i).second) {
      return Invalid(StrCat("tensor '", info.tensor.name, "'"), "occurs twice");
    }
    infos.push_back(std::move(info));
  }
  if (infos.empty()) return file;  // a vocabulary: nothing need follow, not even padding

  uint64_t padding = (alignment - reader.position() % alignment) % alignment;
  if (padding > reader.remaining()) return reader.EndsInside("the padding before the tensor data");
  CAIRN_RETURN_IF_ERROR(PlaceTensors(bytes.subspan(reader.position() + padding), alignment, infos));
  file->tensors_.reserve(infos.size());
  for (TensorInfo& info : infos) file->tensors_.push_back(std::move(info.tensor));
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

absl::StatusOr<const GgufTensor*> GgufFile::Tensor(std::string_view name) const {
  if (const GgufTensor* tensor = FindTensor(name)) return tensor;
  return absl::NotFoundError(StrCat("GGUF: no tensor '", name, "'"));
}

bool GgufFile::Has(std::string_view key) const { return metadata_.contains(key); }

absl::StatusOr<int64_t> GgufFile::GetInt(std::string_view key) const {
  if (absl::StatusOr<const uint64_t*> value = Get<uint64_t>(*this, key, "an integer"); value.ok()) {
    if (**value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Invalid(StrCat("metadata key '", key, "'"), StrCat(**value, " is out of range"));
    }
    return static_cast<int64_t>(**value);
  }
  CAIRN_ASSIGN_OR_RETURN(const int64_t* value, Get<int64_t>(*this, key, "an integer"));
  return *value;
}

absl::StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  if (absl::StatusOr<const double*> value = Get<double>(*this, key, "a number"); value.ok()) {
    return **value;
  }
  absl::StatusOr<int64_t> integer = GetInt(key);
  if (integer.ok()) return static_cast<double>(*integer);
  return absl::IsNotFound(integer.status())
             ? integer.status()
             : Invalid(StrCat("metadata key '", key, "'"), "is not a number in range");
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  CAIRN_ASSIGN_OR_RETURN(const bool* value, Get<bool>(*this, key, "a boolean"));
  return *value;
}

absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view* value,
                         Get<std::string_view>(*this, key, "a string"));
  return *value;
}

absl::StatusOr<std::span<const std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string_view>* value,
                         Get<std::vector<std::string_view>>(*this, key, "an array of strings"));
  return std::span<const std::string_view>(*value);
}

absl::StatusOr<std::span<const int64_t>> GgufFile::GetInts(std::string_view key) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<int64_t>* value,
                         Get<std::vector<int64_t>>(*this, key, "an array of integers"));
  return std::span<const int64_t>(*value);
}

absl::StatusOr<std::span<const float>> GgufFile::GetFloats(std::string_view key) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<float>* value,
                         Get<std::vector<float>>(*this, key, "an array of floats"));
  return std::span<const float>(*value);
}

}  // namespace cairn::engine
