// grpc.health.v1.Health with one status per name: "" for the whole process, the full name of each
// gRPC service, and "cairn.model.<role>" for each configured model. Everything is NOT_SERVING until
// Set says otherwise.
//
// Threads: thread-safe.
#ifndef CAIRN_SERVICES_RUNTIME_HEALTH_H_
#define CAIRN_SERVICES_RUNTIME_HEALTH_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "services/runtime/drain_list.h"

namespace cairn::services {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  explicit HealthService(DrainList* drain) : drain_(drain) {}

  // Adds the name when it is new. Watchers of the name hear of a change.
  void Set(const std::string& name, bool serving);
  bool IsServing(const std::string& name) const;
  std::map<std::string, bool> All() const;
  // Everything becomes NOT_SERVING and stays so.
  void Shutdown();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;

  DrainList* drain_;
  mutable absl::Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_HEALTH_H_
