#include "common/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "common/strings.h"

namespace cairn {
namespace {

constexpr char kReasonUrl[] = "cairn/reason";
constexpr char kFieldUrl[] = "cairn/field";
constexpr char kRetryUrl[] = "cairn/retry_after_ns";

absl::Status WithPayload(absl::Status status, const char* url, std::string_view value) {
  if (!status.ok()) status.SetPayload(url, absl::Cord(ToAbsl(value)));
  return status;
}

std::string Payload(const absl::Status& status, const char* url) {
  auto payload = status.GetPayload(url);
  return payload ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  return WithPayload(std::move(status), kReasonUrl, reason);
}
std::string ReasonOf(const absl::Status& status) { return Payload(status, kReasonUrl); }

absl::Status WithField(absl::Status status, std::string_view field) {
  return WithPayload(std::move(status), kFieldUrl, field);
}
std::string FieldOf(const absl::Status& status) { return Payload(status, kFieldUrl); }

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  return WithPayload(std::move(status), kRetryUrl, StrCat(absl::ToInt64Nanoseconds(delay)));
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  int64_t ns = 0;
  if (!absl::SimpleAtoi(Payload(status, kRetryUrl), &ns)) return std::nullopt;
  return absl::Nanoseconds(ns);
}

absl::Status InvalidField(std::string_view field, std::string_view message) {
  return WithReason(WithField(absl::InvalidArgumentError(StrCat(field, ": ", message)), field),
                    "INVALID_FIELD");
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status out(status.code(), StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

}  // namespace cairn
