#include "services/runtime/status_map.h"

#include <string>

#include "common/status.h"
#include "common/utf8.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace cairn::services {
namespace {

TEST(StatusMap, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    const grpc::Status wire = ToGrpc(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(wire.error_message(), "why");
    EXPECT_TRUE(wire.error_details().empty());
    EXPECT_EQ(FromGrpc(wire), status) << code;
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusMap, DetailsAreGoogleRpcMessages) {
  const absl::Status status = WithRetryAfter(
      InvalidField("query.top_k", "must be 1 to 1000, got -3"), absl::Milliseconds(1500));
  google::rpc::Status rich;
  ASSERT_TRUE(rich.ParseFromString(ToGrpc(status).error_details()));
  EXPECT_EQ(rich.code(), 3);
  ASSERT_EQ(rich.details_size(), 3);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(rich.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INVALID_FIELD");
  EXPECT_EQ(info.domain(), "cairn");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(rich.details(1).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "query.top_k");
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(rich.details(2).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(StatusMap, ReasonFieldAndDelayComeBack) {
  const absl::Status back = FromGrpc(ToGrpc(WithRetryAfter(
      WithReason(WithField(absl::UnavailableError("loading"), "model"), "MODEL_LOADING"),
      absl::Seconds(2))));
  EXPECT_EQ(back.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(back), "MODEL_LOADING");
  EXPECT_EQ(FieldOf(back), "model");
  EXPECT_EQ(RetryAfterOf(back), absl::Seconds(2));
}

TEST(StatusMap, HostileMessagesAreMadeSafe) {
  const grpc::Status wire =
      ToGrpc(absl::InternalError("bad \xff bytes " + std::string(100'000, 'x')));
  EXPECT_LT(wire.error_message().size(), 4096u);
  EXPECT_TRUE(IsValidUtf8(wire.error_message()));
}

TEST(StatusMap, BrokenDetailsAreIgnored) {
  const grpc::Status odd(grpc::StatusCode::DATA_LOSS, "odd", "\xff\xff not a message");
  EXPECT_EQ(FromGrpc(odd), absl::DataLossError("odd"));
}

}  // namespace
}  // namespace cairn::services
