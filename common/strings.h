// StrCat and StrAppend that also take std::string_view.
//
// The distribution's Abseil is built with its own absl::string_view class, which does not convert
// to or from std::string_view; our code speaks std::string_view and crosses here.
#ifndef CAIRN_COMMON_STRINGS_H_
#define CAIRN_COMMON_STRINGS_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cairn {

inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }

namespace internal {
template <typename T>
const T& StrPiece(const T& value) {
  return value;
}
inline absl::string_view StrPiece(const std::string_view& value) { return ToAbsl(value); }
}  // namespace internal

template <typename... Ts>
std::string StrCat(const Ts&... pieces) {
  return absl::StrCat(internal::StrPiece(pieces)...);
}

template <typename... Ts>
void StrAppend(std::string* out, const Ts&... pieces) {
  absl::StrAppend(out, internal::StrPiece(pieces)...);
}

}  // namespace cairn

#endif  // CAIRN_COMMON_STRINGS_H_
