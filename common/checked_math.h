// Arithmetic on integers that came from a file or a request: every result is checked.
#ifndef CAIRN_COMMON_CHECKED_MATH_H_
#define CAIRN_COMMON_CHECKED_MATH_H_

#include <concepts>

namespace cairn {

// Each stores the result in `*out` and returns true, or returns false on overflow (out is
// unspecified).
template <std::integral T>
[[nodiscard]] bool CheckedAdd(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <std::integral T>
[[nodiscard]] bool CheckedSub(T a, T b, T* out) {
  return !__builtin_sub_overflow(a, b, out);
}
template <std::integral T>
[[nodiscard]] bool CheckedMul(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}

}  // namespace cairn

#endif  // CAIRN_COMMON_CHECKED_MATH_H_
