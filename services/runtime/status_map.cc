#include "services/runtime/status_map.h"

#include <string>

#include "common/status.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace cairn::services {
namespace {

// gRPC carries the message in an HTTP/2 header: a bound keeps it far from the header limit.
constexpr size_t kMaxMessageBytes = 2048;

std::string WireMessage(const absl::Status& status) {
  std::string message = SanitizeUtf8(ToStd(status.message()));
  if (message.size() > kMaxMessageBytes) {
    message.resize(Utf8Floor(message, kMaxMessageBytes));
    message += " ...";
  }
  return message;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = WireMessage(status);
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(message);
  if (std::string reason = ReasonOf(status); !reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain(kErrorDomain);
    rich.add_details()->PackFrom(info);
  }
  if (std::string field = SanitizeUtf8(FieldOf(status)); !field.empty()) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(message);
    rich.add_details()->PackFrom(bad);
  }
  if (auto delay = RetryAfterOf(status)) {
    google::rpc::RetryInfo retry;
    const int64_t ns = absl::ToInt64Nanoseconds(*delay);
    retry.mutable_retry_delay()->set_seconds(ns / 1'000'000'000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ns % 1'000'000'000));
    rich.add_details()->PackFrom(retry);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      rich.details_size() > 0 ? rich.SerializeAsString() : std::string());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = static_cast<int>(status.error_code());
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status out(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                   status.error_message());
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.error_details())) return out;
  for (const auto& detail : rich.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info)) {
      out = WithReason(std::move(out), info.reason());
    } else if (detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      out = WithField(std::move(out), bad.field_violations(0).field());
    } else if (detail.UnpackTo(&retry)) {
      out = WithRetryAfter(std::move(out), absl::Seconds(retry.retry_delay().seconds()) +
                                               absl::Nanoseconds(retry.retry_delay().nanos()));
    }
  }
  return out;
}

}  // namespace cairn::services
