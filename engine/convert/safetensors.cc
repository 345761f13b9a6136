#include "engine/convert/safetensors.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/checked_math.h"
#include "common/strings.h"
#include "engine/convert/byte_reader.h"

namespace cairn::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "safetensors";
constexpr uint64_t kMaxHeader = 100 << 20;  // the reference implementation's limit

absl::Status Bad(std::string_view name, std::string_view message) {
  return absl::InvalidArgumentError(StrCat(kFormat, ": tensor '", name, "': ", message));
}

absl::StatusOr<uint64_t> ElementBytes(std::string_view dtype) {
  struct Entry {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Entry kTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                              {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};
  for (const Entry& entry : kTypes) {
    if (dtype == entry.name) return entry.bytes;
  }
  return absl::UnimplementedError(StrCat(kFormat, ": unknown element type '", dtype, "'"));
}

absl::StatusOr<SafeTensor> ReadEntry(const std::string& name, const Json& entry,
                                     std::span<const uint8_t> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    return Bad(name, "needs dtype, shape and two data_offsets");
  }
  SafeTensor tensor{name, entry["dtype"].get<std::string>(), {}, {}};
  CAIRN_ASSIGN_OR_RETURN(uint64_t expected, ElementBytes(tensor.dtype));
  for (const Json& dimension : entry["shape"]) {
    if (!dimension.is_number_unsigned())
      return Bad(name, "has a dimension that is no natural number");
    const uint64_t size = dimension.get<uint64_t>();
    if (size > INT64_MAX || !CheckedMul(expected, size, &expected))
      return Bad(name, "is too large");
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return Bad(name, "has offsets that are no natural numbers");
  }
  const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (begin > end || end > data.size()) {
    return absl::OutOfRangeError(StrCat(kFormat, ": tensor '", name, "' spans ", begin, "..", end,
                                        " of ", data.size(), " data bytes"));
  }
  if (end - begin != expected) {
    return Bad(name, StrCat("has ", end - begin, " bytes, its shape and type need ", expected));
  }
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<SafeTensor>> ParseSafetensors(std::span<const uint8_t> bytes) {
  ByteReader reader(kFormat, bytes);
  CAIRN_ASSIGN_OR_RETURN(const auto header_size, reader.Read<uint64_t>("header length"));
  if (header_size > kMaxHeader) {
    return absl::InvalidArgumentError(
        StrCat(kFormat, ": header of ", header_size, " bytes, more than ", kMaxHeader));
  }
  CAIRN_ASSIGN_OR_RETURN(const auto header_bytes, reader.Take(header_size, "header"));
  CAIRN_ASSIGN_OR_RETURN(const auto data, reader.Take(reader.remaining(), "data"));
  // The depth of the format is 3; a hostile depth must not reach the parser's recursive destructor.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 4; };
  const Json header =
      Json::parse(header_bytes.begin(), header_bytes.end(), shallow, /*allow_exceptions=*/false);
  if (!header.is_object())
    return absl::InvalidArgumentError(StrCat(kFormat, ": the header is no JSON object"));
  std::vector<SafeTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    CAIRN_ASSIGN_OR_RETURN(SafeTensor tensor, ReadEntry(name, entry, data));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace cairn::engine
