#include "services/clients/role_channel.h"

#include <utility>

#include "services/runtime/status_map.h"
#include "services/runtime/trace.h"

namespace cairn::services {

void RoleChannel::Set(std::shared_ptr<grpc::Channel> channel) {
  absl::MutexLock lock(&mutex_);
  channel_ = std::move(channel);
}

void RoleChannel::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  channel_.reset();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> RoleChannel::Get(const RequestContext& context) {
  const auto known = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || channel_ != nullptr;
  };
  absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithDeadline(absl::Condition(&known), context.deadline())) {
    return absl::DeadlineExceededError("deadline exceeded while the server starts");
  }
  if (closed_) return absl::UnavailableError("the server is stopping");
  return channel_;
}

ClientCall::ClientCall(const RequestContext& context) : context_(context) {
  if (context.deadline() != absl::InfiniteFuture()) {
    grpc_context_.set_deadline(absl::ToChronoTime(context.deadline()));
  }
  const RequestIdentity& identity = context.identity();
  if (!identity.request_id.empty()) grpc_context_.AddMetadata(kRequestIdKey, identity.request_id);
  if (!identity.trace_id.empty()) {
    grpc_context_.AddMetadata(kTraceParentKey, TraceParentFor(identity.trace_id));
  }
  registration_ = context_.OnCancel([this] { grpc_context_.TryCancel(); });
}

absl::Status ClientCall::Result(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(context_.Check());
  return FromGrpc(status);
}

}  // namespace cairn::services
