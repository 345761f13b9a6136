// RoleChannel: where a role is found. A role in this process has its channel only once the server
// runs, while those who call it are built before; Get waits for that moment.
//
// Threads: thread-safe.
#ifndef CAIRN_SERVICES_CLIENTS_ROLE_CHANNEL_H_
#define CAIRN_SERVICES_CLIENTS_ROLE_CHANNEL_H_

#include <memory>

#include "absl/synchronization/mutex.h"
#include "common/context.h"
#include "common/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace cairn::services {

class RoleChannel {
 public:
  void Set(std::shared_ptr<grpc::Channel> channel);
  // The process stops: later calls, and those that wait, get UNAVAILABLE.
  void Close();
  // Waits until Set or Close, at most until the context's deadline.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Get(const RequestContext& context);

 private:
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

// A grpc::ClientContext that carries a RequestContext on: remaining time, cancellation, request id
// and trace. gRPC passes none of them by itself.
class ClientCall {
 public:
  explicit ClientCall(const RequestContext& context);
  grpc::ClientContext* get() { return &grpc_context_; }
  // The call's result; the context's own end (cancelled, deadline) goes before what the peer said.
  absl::Status Result(const grpc::Status& status) const;

 private:
  RequestContext context_;
  grpc::ClientContext grpc_context_;
  CancelRegistration registration_;  // last: unregistered before the gRPC context goes
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_CLIENTS_ROLE_CHANNEL_H_
