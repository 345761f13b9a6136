// BigInt: signed integers of any size, for the calculator. Schoolbook arithmetic: sizes are bounded
// by the caller. Threads: a value type.
#ifndef CAIRN_AGENT_RUN_BIG_INT_H_
#define CAIRN_AGENT_RUN_BIG_INT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::agent {

class BigInt {
 public:
  BigInt() = default;
  BigInt(int64_t value);  // NOLINT: an integer is one
  // REQUIRES: `digits` is not empty and holds decimal digits only.
  static BigInt FromDigits(std::string_view digits);

  bool is_zero() const { return limbs_.empty(); }
  bool is_negative() const { return negative_; }
  bool is_odd() const { return !limbs_.empty() && (limbs_[0] & 1) != 0; }
  size_t bits() const;  // of the magnitude; 0 for 0
  // The value, when it fits.
  bool ToInt64(int64_t* out) const;
  std::string ToString() const;

  BigInt operator-() const;
  BigInt Abs() const { return negative_ ? -*this : *this; }
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b) { return a + (-b); }
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  // Truncates toward zero; the remainder has the sign of `a`. REQUIRES: b is not zero.
  static void DivMod(const BigInt& a, const BigInt& b, BigInt* quotient, BigInt* remainder);
  static BigInt Gcd(BigInt a, BigInt b);
  static BigInt Pow(const BigInt& base, uint32_t exponent);

  friend bool operator==(const BigInt& a, const BigInt& b) = default;
  friend bool operator<(const BigInt& a, const BigInt& b);

 private:
  using Limbs = std::vector<uint32_t>;
  static int CompareMagnitude(const Limbs& a, const Limbs& b);
  static Limbs AddMagnitude(const Limbs& a, const Limbs& b);
  static Limbs SubMagnitude(const Limbs& a, const Limbs& b);  // REQUIRES: a >= b
  static uint32_t DivSmall(Limbs* a, uint32_t divisor);       // returns the remainder
  static void Trim(Limbs* limbs);
  void Normalize();

  bool negative_ = false;  // false for 0
  Limbs limbs_;            // little-endian, no leading zeros
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_BIG_INT_H_
