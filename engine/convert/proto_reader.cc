#include "engine/convert/proto_reader.h"

#include <cstring>

#include "common/strings.h"

namespace cairn::engine {

absl::StatusOr<uint64_t> ProtoReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    CAIRN_ASSIGN_OR_RETURN(const auto byte, Take(1));
    value |= uint64_t{byte[0] & 0x7Fu} << shift;
    if (byte[0] < 0x80) return value;
  }
  return absl::InvalidArgumentError("protobuf: a number of more than 10 bytes");
}

absl::StatusOr<std::span<const uint8_t>> ProtoReader::Take(uint64_t size) {
  if (size > rest_.size()) {
    return absl::OutOfRangeError(
        StrCat("protobuf: a field needs ", size, " bytes, but only ", rest_.size(), " are left"));
  }
  const auto view = rest_.first(size);
  rest_ = rest_.subspan(size);
  return view;
}

absl::StatusOr<ProtoField> ProtoReader::Next() {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
  ProtoField field;
  field.number = static_cast<uint32_t>(tag >> 3);
  if (tag > UINT32_MAX || field.number == 0) {
    return absl::InvalidArgumentError(StrCat("protobuf: bad tag ", tag));
  }
  field.wire = static_cast<ProtoField::Wire>(tag & 7);
  switch (field.wire) {
    case ProtoField::Wire::kVarint: {
      CAIRN_ASSIGN_OR_RETURN(field.value, Varint());
      return field;
    }
    case ProtoField::Wire::kBytes: {
      CAIRN_ASSIGN_OR_RETURN(const uint64_t size, Varint());
      CAIRN_ASSIGN_OR_RETURN(field.bytes, Take(size));
      return field;
    }
    case ProtoField::Wire::kFixed64:
    case ProtoField::Wire::kFixed32: {
      const bool wide = field.wire == ProtoField::Wire::kFixed64;
      CAIRN_ASSIGN_OR_RETURN(const auto bytes, Take(wide ? 8 : 4));
      std::memcpy(&field.value, bytes.data(), bytes.size());
      return field;
    }
  }
  return absl::InvalidArgumentError(
      StrCat("protobuf: field ", field.number, " has wire type ", tag & 7));
}

}  // namespace cairn::engine
