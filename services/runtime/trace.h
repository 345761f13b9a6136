// Request ids and W3C trace context ("traceparent: 00-<trace id>-<parent id>-<flags>").
#ifndef CAIRN_SERVICES_RUNTIME_TRACE_H_
#define CAIRN_SERVICES_RUNTIME_TRACE_H_

#include <string>
#include <string_view>

namespace cairn::services {

inline constexpr char kRequestIdKey[] = "x-request-id";
inline constexpr char kTraceParentKey[] = "traceparent";

// `num_bytes` random bytes in lower-case hex.
std::string RandomHex(int num_bytes);
// True for 1 to 128 printable ASCII characters without spaces.
bool IsUsableRequestId(std::string_view id);
// The trace id of a well-formed header, otherwise "".
std::string TraceIdOf(std::string_view traceparent);
// A header for a call made on behalf of `trace_id` (32 hex digits), with a new parent id.
std::string TraceParentFor(std::string_view trace_id);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_TRACE_H_
