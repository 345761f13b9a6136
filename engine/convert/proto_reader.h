// ProtoReader: walks the fields of one protobuf message without a schema, with every length
// checked.
#ifndef CAIRN_ENGINE_CONVERT_PROTO_READER_H_
#define CAIRN_ENGINE_CONVERT_PROTO_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace cairn::engine {

struct ProtoField {
  enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;              // kVarint, kFixed64, kFixed32
  std::span<const uint8_t> bytes;  // kBytes: a string, a message or packed numbers
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class ProtoReader {
 public:
  explicit ProtoReader(std::span<const uint8_t> message) : rest_(message) {}
  bool done() const { return rest_.empty(); }
  // REQUIRES: !done(). OUT_OF_RANGE for a field that is cut off, INVALID_ARGUMENT for a bad tag or
  // number.
  absl::StatusOr<ProtoField> Next();
  absl::StatusOr<uint64_t> Varint();

 private:
  absl::StatusOr<std::span<const uint8_t>> Take(uint64_t size);
  std::span<const uint8_t> rest_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_PROTO_READER_H_
