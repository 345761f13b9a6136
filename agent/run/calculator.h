// An exact calculator: rational numbers, no floating point. 0.1 + 0.2 is 0.3.
//
// Grammar: numbers ("12", "0.5", "1e3"), + - * / % ^ ( ), unary + and -. Also "**" for ^ and "×",
// "÷", "−". ^ binds tighter than unary minus and to the right (-2^2 = -4, 2^3^2 = 512); its
// exponent must be an integer. a % b has the sign of b (7 % -3 = -2), also for fractions. Result:
// an exact decimal when there is one ("0.3"), else a reduced fraction with an approximation
// ("1/3 (about 0.333333333333333)").
// Errors: INVALID_ARGUMENT with the position for syntax, division by zero, and anything that would
// grow beyond kCalculatorMaxBits (checked before the work is done).
#ifndef CAIRN_AGENT_RUN_CALCULATOR_H_
#define CAIRN_AGENT_RUN_CALCULATOR_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace cairn::agent {

inline constexpr size_t kCalculatorMaxBits = 8192;  // of a numerator or denominator
inline constexpr int kCalculatorMaxDepth = 64;      // of parentheses and signs

absl::StatusOr<std::string> Calculate(std::string_view expression);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_CALCULATOR_H_
