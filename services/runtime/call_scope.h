// CallScope: one call in progress on the server. Builds the RequestContext from gRPC's (deadline,
// cancellation, request id, W3C trace), counts the call in the metrics and turns its end into a
// grpc::Status.
//
// The request id is the client's "x-request-id" when it is 1 to 128 printable characters,
// otherwise drawn; it goes back in the initial metadata under the same name.
//
// Threads: Cancel from any thread; the rest thread-compatible. Close is called once.
#ifndef CAIRN_SERVICES_RUNTIME_CALL_SCOPE_H_
#define CAIRN_SERVICES_RUNTIME_CALL_SCOPE_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/context.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "services/runtime/drain_list.h"
#include "services/runtime/executor.h"
#include "services/runtime/metrics.h"

namespace cairn::services {

// What the calls of one role share. The pointers outlive every call.
struct CallRuntime {
  Executor* executor = nullptr;  // handlers run here
  Metrics* metrics = nullptr;
  DrainList* drain = nullptr;
  // A stream whose reader takes nothing for this long is cancelled.
  absl::Duration stall_limit = absl::Minutes(2);
  // Client streams open together; more are refused with RESOURCE_EXHAUSTED.
  std::shared_ptr<std::atomic<int>> open_uploads = std::make_shared<std::atomic<int>>(0);
  int max_uploads = 32;
};

class CallScope {
 public:
  // `method` is a literal, "cairn.agent.v1.AgentService/Ask".
  CallScope(const CallRuntime& runtime, const char* method, grpc::CallbackServerContext* context);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  const RequestContext& context() const { return context_; }
  const CallRuntime& runtime() const { return runtime_; }
  void Cancel() { source_.Cancel(); }
  // The call is cancelled when the server drains: for calls that only watch.
  void EndOnDrain();

  // Counts and logs the end of the call. A handler's error is reported as DEADLINE_EXCEEDED when
  // the deadline has passed, whatever it said.
  grpc::Status Close(absl::Status status);

 private:
  const CallRuntime& runtime_;
  const char* method_;
  absl::Time started_;
  CancelSource source_;
  RequestContext context_;
  uint64_t drain_id_ = 0;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_CALL_SCOPE_H_
