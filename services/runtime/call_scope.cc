#include "services/runtime/call_scope.h"

#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "common/log.h"
#include "services/runtime/status_map.h"
#include "services/runtime/trace.h"

namespace cairn::services {
namespace {

std::string_view MetadataOf(const grpc::CallbackServerContext& context, const char* key) {
  const auto it = context.client_metadata().find(key);
  if (it == context.client_metadata().end()) return {};
  return {it->second.data(), it->second.size()};
}

RequestContext MakeContext(const CancelSource& source, grpc::CallbackServerContext* context) {
  RequestIdentity identity;
  const std::string_view id = MetadataOf(*context, kRequestIdKey);
  identity.request_id = IsUsableRequestId(id) ? std::string(id) : RandomHex(8);
  identity.trace_id = TraceIdOf(MetadataOf(*context, kTraceParentKey));
  if (identity.trace_id.empty()) identity.trace_id = RandomHex(16);
  context->AddInitialMetadata(kRequestIdKey, identity.request_id);
  const auto deadline = context->deadline();
  const bool bounded = deadline != std::chrono::system_clock::time_point::max();
  return RequestContext(source, bounded ? absl::FromChrono(deadline) : absl::InfiniteFuture(),
                        std::move(identity));
}

bool IsOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

}  // namespace

CallScope::CallScope(const CallRuntime& runtime, const char* method,
                     grpc::CallbackServerContext* context)
    : runtime_(runtime),
      method_(method),
      started_(absl::Now()),
      context_(MakeContext(source_, context)) {
  runtime_.metrics->RpcStarted(method_);
}

CallScope::~CallScope() {
  if (drain_id_ != 0) runtime_.drain->Remove(drain_id_);
}

void CallScope::EndOnDrain() {
  drain_id_ = runtime_.drain->Add([source = source_] { source.Cancel(); });
}

grpc::Status CallScope::Close(absl::Status status) {
  const absl::Time now = absl::Now();
  if (status.code() == absl::StatusCode::kCancelled && now >= context_.deadline()) {
    status = absl::DeadlineExceededError("deadline exceeded");
  }
  const absl::Duration took = now - started_;
  runtime_.metrics->RpcEnded(method_, status.code(), took);
  const log::Fields fields = {{"method", method_},
                              {"code", StatusCodeName(status.code())},
                              {"ms", absl::ToInt64Milliseconds(took)},
                              {"request", context_.identity().request_id},
                              {"trace", context_.identity().trace_id},
                              {"error", status.message()}};
  if (IsOurFault(status.code())) {
    log::Error("call failed", fields);
  } else {
    log::Debug("call ended", fields);
  }
  return ToGrpc(status);
}

}  // namespace cairn::services
