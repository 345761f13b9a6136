// ByteReader: a cursor over little-endian bytes of a file that nobody vouches for. Each read names
// what it is after, so that the error of a short file says what is missing and where.
#ifndef CAIRN_ENGINE_CONVERT_BYTE_READER_H_
#define CAIRN_ENGINE_CONVERT_BYTE_READER_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/status.h"
#include "common/strings.h"

namespace cairn::engine {

class ByteReader {
 public:
  // `format` begins every message ("E5S1").
  ByteReader(std::string_view format, std::span<const uint8_t> bytes)
      : format_(format), bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // The next `size` bytes, as a view into the file. OUT_OF_RANGE when there are fewer.
  absl::StatusOr<std::span<const uint8_t>> Take(uint64_t size, std::string_view what) {
    if (size > remaining()) {
      return absl::OutOfRangeError(StrCat(format_, ": ", what, " needs ", size, " bytes at offset ",
                                          position_, ", but only ", remaining(), " are left"));
    }
    const auto view = bytes_.subspan(position_, size);
    position_ += size;
    return view;
  }

  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    CAIRN_ASSIGN_OR_RETURN(const auto view, Take(sizeof(T), what));
    T value;
    std::memcpy(&value, view.data(), sizeof(T));
    return value;
  }

  // `count` values, copied out (files do not align them).
  template <typename T>
  absl::StatusOr<std::vector<T>> ReadArray(uint64_t count, std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    if (count > remaining() / sizeof(T)) {
      return absl::OutOfRangeError(StrCat(format_, ": ", what, " has ", count, " entries of ",
                                          sizeof(T), " bytes at offset ", position_, ", but only ",
                                          remaining(), " bytes are left"));
    }
    CAIRN_ASSIGN_OR_RETURN(const auto view, Take(count * sizeof(T), what));
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), view.data(), view.size());
    return values;
  }

 private:
  std::string_view format_;
  std::span<const uint8_t> bytes_;
  uint64_t position_ = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_BYTE_READER_H_
