#include "agent/run/calculator.h"

#include <random>

#include "agent/run/big_int.h"
#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::agent {
namespace {

using ::testing::HasSubstr;

std::string Result(std::string_view expression) {
  const auto result = Calculate(expression);
  return result.ok() ? *result : std::string(result.status().message());
}

TEST(CalculatorTest, IsExact) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.1 + 0.2", "0.3"},
      {"1 - 0.9", "0.1"},
      {"1/3", "1/3 (about 0.333333333333333)"},
      {"2/3", "2/3 (about 0.666666666666667)"},
      {"1/3 * 3", "1"},
      {"10/4", "2.5"},
      {"-7/2", "-3.5"},
      {"2^10", "1024"},
      {"2**10", "1024"},
      {"2^-2", "0.25"},
      {"-2^2", "-4"},
      {"(-2)^3", "-8"},
      {"2^3^2", "512"},
      {"2^100", "1267650600228229401496703205376"},
      {"0^0", "1"},
      {"(-1)^1000000000001", "-1"},
      {"7 % 3", "1"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"7.5 % 2", "1.5"},
      {"2 + 3 * 4", "14"},
      {"(2 + 3) * 4", "20"},
      {"--3", "3"},
      {"1e3 + 1E-2", "1000.01"},
      {".5 + 5.", "5.5"},
      {"3 × 4 ÷ 6 − 1", "1"},
      {"99999999999999999999 * 99999999999999999999", "9999999999999999999800000000000000000001"},
      {"1/7e20", "1/700000000000000000000 (about 0.00000000000000000000142857142857143)"},
      {" 42 ", "42"},
      {"0 * -1", "0"},
  };
  for (const auto& [expression, expected] : cases)
    EXPECT_EQ(Result(expression), expected) << expression;
}

TEST(CalculatorTest, SaysWhatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "ends too early"},
      {"1 +", "ends too early"},
      {"1 / 0", "division by zero"},
      {"1 / (0.1 + 0.2 - 0.3)", "division by zero"},
      {"5 % 0", "division by zero"},
      {"0^-1", "division by zero"},
      {"2 3", "unexpected \"3\" at position 3"},
      {"1,000 + 1", "unexpected \",\" at position 2"},
      {"sqrt(2)", "unexpected \"s\" at position 1"},
      {"2^0.5", "exponent must be an integer"},
      {"(1", "ends too early"},
      {"1)", "unexpected \")\""},
      {"1e", "ends too early"},
      {"1e99999", "more than"},
      {"9^9^9", "more than"},
      {"2^10000", "more than"},
      {"(2^8000)*(2^8000)", "more than"},
      {"2^99999999999999999999999", "more than"},
      {std::string(100, '('), "nested deeper"},
      {std::string(1000, '-') + "1", "nested deeper"},
      {std::string(5000, '1'), "the limit is"},
      {std::string("1\0+1", 4), "unexpected"},
  };
  for (const auto& [expression, expected] : cases) {
    EXPECT_EQ(Calculate(expression).status().code(), absl::StatusCode::kInvalidArgument)
        << expression;
    EXPECT_THAT(Result(expression), HasSubstr(expected)) << expression;
  }
}

TEST(CalculatorTest, GrowthIsBoundedInTime) {
  std::string nested = "3";
  for (int i = 0; i < 30; ++i) nested = "(" + nested + ")^2";
  EXPECT_THAT(Result(nested), HasSubstr("more than"));
  std::string sum = "1/3";
  for (int i = 5; i < 400; i += 2) sum += StrCat("+1/", i);
  EXPECT_THAT(Result(sum), HasSubstr("about"));
}

// Against 128-bit machine arithmetic, and by the identity a = q b + r for numbers of many limbs.
TEST(BigIntTest, AgreesWithMachineArithmetic) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto a = static_cast<int64_t>(random() >> (random() % 62)) * (random() % 2 == 0 ? 1 : -1);
    const auto b = static_cast<int64_t>(random() >> (random() % 62)) * (random() % 2 == 0 ? 1 : -1);
    const BigInt x(a), y(b);
    const auto text = [](__int128 v) {
      const bool negative = v < 0;
      std::string out;
      for (unsigned __int128 m = negative ? -static_cast<unsigned __int128>(v) : v;
           m != 0 || out.empty(); m /= 10) {
        out.insert(out.begin(), static_cast<char>('0' + static_cast<int>(m % 10)));
      }
      return (negative ? "-" : "") + out;
    };
    ASSERT_EQ((x + y).ToString(), text(static_cast<__int128>(a) + b));
    ASSERT_EQ((x - y).ToString(), text(static_cast<__int128>(a) - b));
    ASSERT_EQ((x * y).ToString(), text(static_cast<__int128>(a) * b));
    ASSERT_EQ(x < y, a < b);
    if (b == 0) continue;
    BigInt quotient, remainder;
    BigInt::DivMod(x, y, &quotient, &remainder);
    ASSERT_EQ(quotient.ToString(), text(a / b));
    ASSERT_EQ(remainder.ToString(), text(a % b));
  }
}

TEST(BigIntTest, DivisionOfLongNumbersReverses) {
  std::mt19937_64 random(5);
  const auto number = [&](int limbs) {
    BigInt out(0);
    for (int i = 0; i < limbs; ++i) {
      // Limbs of all ones and all zeros reach the rare branches of algorithm D.
      const uint64_t kind = random() % 4;
      const uint64_t limb = kind == 0 ? 0xFFFFFFFF : kind == 1 ? 0 : random() & 0xFFFFFFFF;
      out = out * BigInt(int64_t{1} << 32) + BigInt(static_cast<int64_t>(limb));
    }
    return out;
  };
  for (int i = 0; i < 5000; ++i) {
    const BigInt a = number(1 + static_cast<int>(random() % 20)),
                 b = number(1 + static_cast<int>(random() % 12));
    if (b.is_zero()) continue;
    BigInt quotient, remainder;
    BigInt::DivMod(a, b, &quotient, &remainder);
    ASSERT_EQ((quotient * b + remainder).ToString(), a.ToString());
    ASSERT_TRUE(remainder < b.Abs());
    ASSERT_EQ(BigInt::FromDigits(a.ToString()), a);
  }
}

}  // namespace
}  // namespace cairn::agent
