#include "common/status.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return InvalidField("n", "is odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  CAIRN_ASSIGN_OR_RETURN(int half, Half(n));
  CAIRN_RETURN_IF_ERROR(Half(half).status());
  return half / 2;
}

TEST(StatusTest, MacrosPassValuesAndErrors) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Quarter(6).status().message(), "n: is odd");
}

TEST(StatusTest, PayloadsSurviveAnnotate) {
  absl::Status s = WithRetryAfter(InvalidField("a.b", "too long"), absl::Milliseconds(1500));
  s = Annotate(s, "document x");
  EXPECT_EQ(s.message(), "document x: a.b: too long");
  EXPECT_EQ(ReasonOf(s), "INVALID_FIELD");
  EXPECT_EQ(FieldOf(s), "a.b");
  EXPECT_EQ(*RetryAfterOf(s), absl::Milliseconds(1500));
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
  EXPECT_FALSE(RetryAfterOf(absl::InternalError("x")).has_value());
}

}  // namespace
}  // namespace cairn
