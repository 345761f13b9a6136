// GrpcServer: one listening gRPC server with health and reflection, and channels to itself that do
// not leave the process.
//
// Ownership: the services and their executors are the caller's and outlive the server.
// Threads:   thread-safe.
// Errors:    Start gives UNAVAILABLE naming the address when it cannot be bound.
#ifndef CAIRN_SERVICES_RUNTIME_SERVER_H_
#define CAIRN_SERVICES_RUNTIME_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"
#include "services/runtime/drain_list.h"
#include "services/runtime/health.h"

namespace cairn::services {

struct GrpcServerOptions {
  std::string listen = "127.0.0.1:7400";  // port 0 picks a free one
  // Largest message in and out, in bytes; clients use the same value.
  int max_message_bytes = 16 << 20;
};

struct NamedService {
  std::string full_name;
  grpc::Service* service;
};

class GrpcServer {
 public:
  // `health` and `drain` outlive the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const GrpcServerOptions& options, const std::vector<NamedService>& services,
      HealthService* health, DrainList* drain);
  ~GrpcServer();

  // "host:port" with the port that was bound.
  const std::string& address() const { return address_; }
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Refuses new calls, ends those that only watch, waits up to `limit` for the others and cancels
  // what is left. Later calls do nothing.
  void Shutdown(absl::Duration limit);

 private:
  GrpcServer() = default;

  std::string address_;
  int max_message_bytes_ = 0;
  HealthService* health_ = nullptr;
  DrainList* drain_ = nullptr;
  std::vector<std::unique_ptr<grpc::Service>> reflection_;
  std::unique_ptr<grpc::Server> server_;
  bool shut_down_ = false;
};

// A channel to another process, with the message limit and keepalive of ours.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address, int max_message_bytes);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_SERVER_H_
