#include "agent/run/calculator.h"

#include <algorithm>
#include <utility>

#include "agent/run/big_int.h"
#include "common/strings.h"

namespace cairn::agent {
namespace {

constexpr size_t kMaxExpressionBytes = 2000;
constexpr int kSignificantDigits = 15;
constexpr size_t kMaxPlaces = 100;  // of an exact decimal; a longer one is shown as a fraction
constexpr int64_t kMaxDecimalExponent = 1000;  // of "1e1000"

// numerator / denominator, reduced, denominator > 0.
struct Rational {
  BigInt numerator = 0;
  BigInt denominator = 1;
};

absl::Status TooLarge() {
  return absl::InvalidArgumentError(
      StrCat("the result would have more than ", kCalculatorMaxBits, " bits"));
}

absl::StatusOr<Rational> Reduced(BigInt numerator, BigInt denominator) {
  if (denominator.is_zero()) return absl::InvalidArgumentError("division by zero");
  const BigInt divisor = BigInt::Gcd(numerator, denominator);
  BigInt rest;
  Rational out;
  BigInt::DivMod(denominator.is_negative() ? -numerator : numerator, divisor, &out.numerator,
                 &rest);
  BigInt::DivMod(denominator.Abs(), divisor, &out.denominator, &rest);
  if (std::max(out.numerator.bits(), out.denominator.bits()) > kCalculatorMaxBits)
    return TooLarge();
  return out;
}

// Operands are at most kCalculatorMaxBits each, so that a product is at most twice that before it
// is reduced.
absl::StatusOr<Rational> Add(const Rational& a, const Rational& b) {
  return Reduced(a.numerator * b.denominator + b.numerator * a.denominator,
                 a.denominator * b.denominator);
}

absl::StatusOr<Rational> Multiply(const Rational& a, const Rational& b) {
  return Reduced(a.numerator * b.numerator, a.denominator * b.denominator);
}

absl::StatusOr<Rational> Divide(const Rational& a, const Rational& b) {
  return Reduced(a.numerator * b.denominator, a.denominator * b.numerator);
}

BigInt Floor(const Rational& a) {
  BigInt quotient, remainder;
  BigInt::DivMod(a.numerator, a.denominator, &quotient, &remainder);
  return remainder.is_negative() ? quotient - 1 : quotient;
}

absl::StatusOr<Rational> Modulo(const Rational& a, const Rational& b) {
  CAIRN_ASSIGN_OR_RETURN(const Rational quotient, Divide(a, b));
  CAIRN_ASSIGN_OR_RETURN(const Rational whole, Multiply(b, {-Floor(quotient), 1}));
  return Add(a, whole);
}

absl::StatusOr<Rational> Power(const Rational& base, const Rational& exponent) {
  int64_t n = 0;
  if (!(exponent.denominator == BigInt(1))) {
    return absl::InvalidArgumentError(
        "an exponent must be an integer: the result would not be exact");
  }
  if (base.numerator.is_zero() && exponent.numerator.is_negative()) {
    return absl::InvalidArgumentError("division by zero");
  }
  if (base.numerator.is_zero() || (base.numerator.bits() == 1 && base.denominator.bits() == 1)) {
    // 0, 1 and -1 take any exponent.
    if (exponent.numerator.is_zero()) return Rational{1, 1};
    return exponent.numerator.is_odd() ? base : Rational{base.numerator * base.numerator, 1};
  }
  if (!exponent.numerator.ToInt64(&n) || n > static_cast<int64_t>(kCalculatorMaxBits) ||
      n < -static_cast<int64_t>(kCalculatorMaxBits)) {
    return TooLarge();
  }
  const auto magnitude = static_cast<uint32_t>(n < 0 ? -n : n);
  // x has b bits: x^n has more than (b - 1) n.
  const size_t bits = std::max(base.numerator.bits(), base.denominator.bits());
  if ((bits - 1) * magnitude > kCalculatorMaxBits) return TooLarge();
  const BigInt numerator = BigInt::Pow(base.numerator, magnitude);
  const BigInt denominator = BigInt::Pow(base.denominator, magnitude);
  return n < 0 ? Reduced(denominator, numerator) : Reduced(numerator, denominator);
}

// The digits of scaled / 10^places with the point put in.
std::string Decimal(const BigInt& scaled, size_t places) {
  std::string digits = scaled.Abs().ToString();
  const std::string_view sign = scaled.is_negative() ? "-" : "";
  if (places == 0) return StrCat(sign, digits);
  if (digits.size() <= places) digits = std::string(places + 1 - digits.size(), '0').append(digits);
  const std::string_view view = digits;
  return StrCat(sign, view.substr(0, view.size() - places), ".", view.substr(view.size() - places));
}

std::string Approximate(const Rational& value) {
  // Enough places for the significant digits of a small value; cut, not rounded up to another
  // number of digits.
  const auto deficit =
      static_cast<int64_t>(value.denominator.bits()) - static_cast<int64_t>(value.numerator.bits());
  const auto places =
      static_cast<uint32_t>(std::max<int64_t>(0, kSignificantDigits + deficit * 30103 / 100000));
  BigInt quotient, remainder;
  BigInt::DivMod(value.numerator * BigInt::Pow(10, places), value.denominator, &quotient,
                 &remainder);
  if (!(remainder.Abs() + remainder.Abs() < value.denominator)) {
    quotient = quotient + (value.numerator.is_negative() ? -1 : 1);
  }
  return Decimal(quotient, places);
}

std::string Format(const Rational& value) {
  // Exact as a decimal when the denominator is 2^a 5^b: then max(a, b) places are enough.
  size_t places = 0;
  BigInt rest = value.denominator;
  for (const int64_t prime : {2, 5}) {
    size_t count = 0;
    BigInt quotient, remainder;
    while (true) {
      BigInt::DivMod(rest, prime, &quotient, &remainder);
      if (!remainder.is_zero()) break;
      rest = quotient;
      ++count;
    }
    places = std::max(places, count);
  }
  if (rest == BigInt(1) && places <= kMaxPlaces) {
    BigInt quotient, remainder;
    BigInt::DivMod(value.numerator * BigInt::Pow(10, static_cast<uint32_t>(places)),
                   value.denominator, &quotient, &remainder);
    return Decimal(quotient, places);
  }
  return StrCat(value.numerator.ToString(), "/", value.denominator.ToString(), " (about ",
                Approximate(value), ")");
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Recursive descent: sum > product > unary > power > atom.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<Rational> Parse() {
    CAIRN_ASSIGN_OR_RETURN(Rational value, Sum());
    Skip();
    if (pos_ != text_.size()) return Unexpected();
    return value;
  }

 private:
  void Skip() {
    while (pos_ < text_.size() &&
           (text_[pos_] == ' ' || text_[pos_] == '\t' || text_[pos_] == '\n'))
      ++pos_;
  }

  bool Take(std::string_view token) {
    Skip();
    if (text_.substr(pos_, token.size()) != token) return false;
    pos_ += token.size();
    return true;
  }

  absl::Status Unexpected() const {
    if (pos_ >= text_.size()) return absl::InvalidArgumentError("the expression ends too early");
    return absl::InvalidArgumentError(
        StrCat("unexpected \"", std::string(1, text_[pos_]), "\" at position ", pos_ + 1,
               "; only numbers, + - * / % ^ and parentheses are known"));
  }

  absl::StatusOr<Rational> Sum() {
    CAIRN_ASSIGN_OR_RETURN(Rational value, Product());
    while (true) {
      const bool plus = Take("+");
      if (!plus && !Take("-") && !Take("−")) return value;
      CAIRN_ASSIGN_OR_RETURN(Rational right, Product());
      if (!plus) right.numerator = -right.numerator;
      CAIRN_ASSIGN_OR_RETURN(value, Add(value, right));
    }
  }

  absl::StatusOr<Rational> Product() {
    CAIRN_ASSIGN_OR_RETURN(Rational value, Unary());
    while (true) {
      if (Take("*") || Take("×")) {
        CAIRN_ASSIGN_OR_RETURN(const Rational right, Unary());
        CAIRN_ASSIGN_OR_RETURN(value, Multiply(value, right));
      } else if (Take("/") || Take("÷")) {
        CAIRN_ASSIGN_OR_RETURN(const Rational right, Unary());
        CAIRN_ASSIGN_OR_RETURN(value, Divide(value, right));
      } else if (Take("%")) {
        CAIRN_ASSIGN_OR_RETURN(const Rational right, Unary());
        CAIRN_ASSIGN_OR_RETURN(value, Modulo(value, right));
      } else {
        return value;
      }
    }
  }

  absl::StatusOr<Rational> Unary() {
    if (++depth_ > kCalculatorMaxDepth) {
      return absl::InvalidArgumentError(StrCat("nested deeper than ", kCalculatorMaxDepth));
    }
    absl::StatusOr<Rational> value;
    if (Take("-") || Take("−")) {
      value = Unary();
      if (value.ok()) value->numerator = -value->numerator;
    } else if (Take("+")) {
      value = Unary();
    } else {
      value = PowerOf();
    }
    --depth_;
    return value;
  }

  absl::StatusOr<Rational> PowerOf() {
    CAIRN_ASSIGN_OR_RETURN(const Rational base, Atom());
    if (!Take("**") && !Take("^")) return base;
    CAIRN_ASSIGN_OR_RETURN(const Rational exponent, Unary());
    return Power(base, exponent);
  }

  absl::StatusOr<Rational> Atom() {
    if (Take("(")) {
      CAIRN_ASSIGN_OR_RETURN(Rational value, Sum());
      if (!Take(")")) return Unexpected();
      return value;
    }
    return Number();
  }

  absl::StatusOr<Rational> Number() {
    Skip();
    const auto digits = [&] {
      const size_t begin = pos_;
      while (pos_ < text_.size() && IsDigit(text_[pos_])) ++pos_;
      return text_.substr(begin, pos_ - begin);
    };
    std::string mantissa(digits());
    int64_t exponent = 0;
    if (pos_ < text_.size() && text_[pos_] == '.') {
      ++pos_;
      const std::string_view fraction = digits();
      mantissa += fraction;
      exponent -= static_cast<int64_t>(fraction.size());
    }
    if (mantissa.empty()) return Unexpected();
    if (pos_ < text_.size() && (text_[pos_] | 0x20) == 'e') {
      ++pos_;
      const bool minus = pos_ < text_.size() && text_[pos_] == '-';
      if (minus || (pos_ < text_.size() && text_[pos_] == '+')) ++pos_;
      const std::string_view power = digits();
      if (power.empty()) return Unexpected();
      if (power.size() > 4) return TooLarge();
      exponent += (minus ? -1 : 1) * std::stoi(std::string(power));
    }
    if (exponent > kMaxDecimalExponent || exponent < -kMaxDecimalExponent) return TooLarge();
    const BigInt scale =
        BigInt::Pow(10, static_cast<uint32_t>(exponent < 0 ? -exponent : exponent));
    const BigInt value = BigInt::FromDigits(mantissa);
    return exponent < 0 ? Reduced(value, scale) : Reduced(value * scale, 1);
  }

  std::string_view text_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<std::string> Calculate(std::string_view expression) {
  if (expression.size() > kMaxExpressionBytes) {
    return absl::InvalidArgumentError(StrCat("the expression has ", expression.size(),
                                             " bytes, the limit is ", kMaxExpressionBytes));
  }
  CAIRN_ASSIGN_OR_RETURN(const Rational value, Parser(expression).Parse());
  return Format(value);
}

}  // namespace cairn::agent
