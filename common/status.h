// Status macros over absl::Status, and the stable error reasons that travel to clients.
//
// Every function that can fail because of the world (file, network, user, model, tool) returns
// absl::Status or absl::StatusOr<T>. Messages carry the value and the limit.
//
// A reason is a stable UPPER_SNAKE_CASE word that programs may branch on (it becomes
// google.rpc.ErrorInfo.reason at the gRPC boundary); the message is for people and may change.
#ifndef CAIRN_COMMON_STATUS_H_
#define CAIRN_COMMON_STATUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace cairn {

// Attaches a stable reason; returns the status changed. OK statuses are returned as they are.
absl::Status WithReason(absl::Status status, std::string_view reason);
// The reason attached, or "" when there is none.
std::string ReasonOf(const absl::Status& status);

// Says which field of a request is at fault ("query.top_k"); may be called once per status.
absl::Status WithField(absl::Status status, std::string_view field);
std::string FieldOf(const absl::Status& status);

// Says how long a client should wait before trying again.
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

// INVALID_ARGUMENT about one field of a request: "field: message".
absl::Status InvalidField(std::string_view field, std::string_view message);

// Prefixes the message with "context: ", keeping code, reason and other payloads.
absl::Status Annotate(const absl::Status& status, std::string_view context);

}  // namespace cairn

#define CAIRN_STATUS_CONCAT_INNER_(a, b) a##b
#define CAIRN_STATUS_CONCAT_(a, b) CAIRN_STATUS_CONCAT_INNER_(a, b)

#define CAIRN_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (absl::Status cairn_status_ = (expr); !cairn_status_.ok()) return cairn_status_; \
  } while (false)

#define CAIRN_ASSIGN_OR_RETURN(lhs, expr) \
  CAIRN_ASSIGN_OR_RETURN_IMPL_(CAIRN_STATUS_CONCAT_(cairn_statusor_, __LINE__), lhs, expr)
#define CAIRN_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr) \
  auto var = (expr);                                 \
  if (!var.ok()) return var.status();                \
  lhs = std::move(var).value()

#endif  // CAIRN_COMMON_STATUS_H_
