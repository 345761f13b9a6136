#include "services/runtime/health.h"

#include <algorithm>
#include <utility>

namespace cairn::services {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse::ServingStatus ToProto(bool serving) {
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

}  // namespace

// Sends the status of one name at each change. Changes while a write is in flight are seen as one.
// Lives until gRPC is done with it: `self_` is the reference that gRPC holds.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(std::string name, DrainList* drain) : name_(std::move(name)), drain_(drain) {}
  ~Watcher() override { drain_->Remove(drain_id_); }

  const std::string& name() const { return name_; }
  void Hold(std::shared_ptr<Watcher> self) {
    drain_id_ = drain_->Add([weak = std::weak_ptr<Watcher>(self)] {
      if (auto live = weak.lock()) {
        live->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
      }
    });
    self_ = std::move(self);
  }

  void Send(HealthCheckResponse::ServingStatus status) {
    {
      absl::MutexLock lock(&mutex_);
      wanted_ = status;
      if (writing_ || ending_ || sent_ == wanted_) return;
      writing_ = true;
      response_.set_status(wanted_);
    }
    StartWrite(&response_);
  }

  void End(const grpc::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (ending_) return;
      ending_ = true;
      if (writing_) return void(status_ = status);  // OnWriteDone finishes
    }
    Finish(status);
  }

 private:
  void OnWriteDone(bool ok) override {
    bool finish, more = false;
    grpc::Status status;
    {
      absl::MutexLock lock(&mutex_);
      sent_ = response_.status();
      if (!ok && !ending_) {
        ending_ = true;
        status_ = grpc::Status::CANCELLED;
      }
      finish = ending_;
      status = status_;
      more = !finish && wanted_ != sent_;
      writing_ = more;
      if (more) response_.set_status(wanted_);
    }
    if (more) StartWrite(&response_);
    if (finish) Finish(status);
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override { std::exchange(self_, nullptr).reset(); }

  const std::string name_;
  DrainList* const drain_;
  uint64_t drain_id_ = 0;
  std::shared_ptr<Watcher> self_;
  absl::Mutex mutex_;
  HealthCheckResponse response_;  // in flight while writing_
  HealthCheckResponse::ServingStatus wanted_ ABSL_GUARDED_BY(mutex_) = HealthCheckResponse::UNKNOWN;
  HealthCheckResponse::ServingStatus sent_ ABSL_GUARDED_BY(mutex_) = HealthCheckResponse::UNKNOWN;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

void HealthService::Set(const std::string& name, bool serving) {
  std::vector<std::shared_ptr<Watcher>> interested;
  {
    absl::MutexLock lock(&mutex_);
    if (shut_down_) return;
    auto [entry, added] = serving_.emplace(name, serving);
    if (!added && entry->second == serving) return;
    entry->second = serving;
    for (const auto& weak : watchers_) {
      if (auto watcher = weak.lock(); watcher && watcher->name() == name)
        interested.push_back(watcher);
    }
  }
  for (const auto& watcher : interested) watcher->Send(ToProto(serving));
}

bool HealthService::IsServing(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto it = serving_.find(name);
  return it != serving_.end() && it->second;
}

std::map<std::string, bool> HealthService::All() const {
  absl::MutexLock lock(&mutex_);
  return serving_;
}

void HealthService::Shutdown() {
  for (const auto& [name, serving] : All()) Set(name, false);
  absl::MutexLock lock(&mutex_);
  shut_down_ = true;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::MutexLock lock(&mutex_);
  const auto it = serving_.find(request->service());
  if (it == serving_.end()) {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service"));
  } else {
    response->set_status(ToProto(it->second));
    reactor->Finish(grpc::Status::OK);
  }
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  auto watcher = std::make_shared<Watcher>(request->service(), drain_);
  auto status = HealthCheckResponse::SERVICE_UNKNOWN;
  {
    absl::MutexLock lock(&mutex_);
    std::erase_if(watchers_, [](const auto& weak) { return weak.expired(); });
    watchers_.push_back(watcher);
    if (const auto it = serving_.find(watcher->name()); it != serving_.end())
      status = ToProto(it->second);
  }
  watcher->Send(status);
  watcher->Hold(watcher);
  return watcher.get();
}

}  // namespace cairn::services
