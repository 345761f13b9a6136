// Variable-length integers (LEB128) and length-prefixed strings: the vocabulary of every stored
// record.
#ifndef CAIRN_RETRIEVAL_VARINT_H_
#define CAIRN_RETRIEVAL_VARINT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::retrieval {

inline void PutVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

inline void PutBytes(std::string_view bytes, std::string* out) {
  PutVarint(bytes.size(), out);
  out->append(bytes);
}

// Each takes from the front of `*in`; false when the bytes are cut off or overlong.
inline bool TakeVarint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const uint64_t byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    *value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

template <typename T>
bool TakeVarint(std::string_view* in, T* value) {
  uint64_t wide;
  if (!TakeVarint(in, &wide)) return false;
  *value = static_cast<T>(wide);
  return static_cast<uint64_t>(*value) == wide;
}

inline bool TakeBytes(std::string_view* in, std::string_view* bytes) {
  uint64_t size;
  if (!TakeVarint(in, &size) || size > in->size()) return false;
  *bytes = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

inline bool TakeString(std::string_view* in, std::string* out) {
  std::string_view bytes;
  if (!TakeBytes(in, &bytes)) return false;
  out->assign(bytes);
  return true;
}

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_VARINT_H_
