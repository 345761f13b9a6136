// absl::Status <-> grpc::Status, with google.rpc details: ErrorInfo{reason, domain "cairn"},
// BadRequest (the field at fault) and RetryInfo. What one side attaches (common/status.h) the other
// side finds again, so a status crosses processes unchanged.
#ifndef CAIRN_SERVICES_RUNTIME_STATUS_MAP_H_
#define CAIRN_SERVICES_RUNTIME_STATUS_MAP_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace cairn::services {

inline constexpr char kErrorDomain[] = "cairn";

grpc::Status ToGrpc(const absl::Status& status);
// Codes are numerically equal in both; a code that neither knows becomes UNKNOWN. Details that do
// not parse are ignored.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_STATUS_MAP_H_
