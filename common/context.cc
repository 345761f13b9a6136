#include "common/context.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"

namespace cairn {

class CancelState {
 public:
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  void Cancel() {
    // Callbacks run under the lock so that Unregister can promise that none is running after it.
    std::lock_guard lock(mutex_);
    if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
    for (auto& [id, callback] : callbacks_) callback();
    callbacks_.clear();
  }

  uint64_t Register(std::function<void()> callback) {
    {
      std::lock_guard lock(mutex_);
      if (!cancelled()) {
        callbacks_.emplace(++next_id_, std::move(callback));
        return next_id_;
      }
    }
    callback();
    return 0;
  }

  void Unregister(uint64_t id) {
    std::lock_guard lock(mutex_);
    callbacks_.erase(id);
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::map<uint64_t, std::function<void()>> callbacks_;  // guarded by mutex_
  uint64_t next_id_ = 0;                                 // guarded by mutex_
};

CancelSource::CancelSource() : state_(std::make_shared<CancelState>()) {}
void CancelSource::Cancel() const { state_->Cancel(); }
bool CancelSource::cancelled() const { return state_->cancelled(); }

CancelRegistration::CancelRegistration(CancelRegistration&& other) noexcept
    : state_(std::move(other.state_)), id_(std::exchange(other.id_, 0)) {}

CancelRegistration& CancelRegistration::operator=(CancelRegistration&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(id_, other.id_);
  return *this;
}

CancelRegistration::~CancelRegistration() {
  if (state_ && id_ != 0) state_->Unregister(id_);
}

RequestContext RequestContext::Background() { return RequestContext(CancelSource()); }

RequestContext::RequestContext(const CancelSource& source, absl::Time deadline,
                               RequestIdentity identity)
    : state_(source.state_),
      deadline_(deadline),
      identity_(std::make_shared<const RequestIdentity>(std::move(identity))) {}

RequestContext RequestContext::WithDeadline(absl::Time deadline) const {
  RequestContext copy = *this;
  copy.deadline_ = std::min(deadline_, deadline);
  return copy;
}

RequestContext RequestContext::WithTimeout(absl::Duration timeout) const {
  return WithDeadline(absl::Now() + timeout);
}

absl::Duration RequestContext::remaining() const { return deadline_ - absl::Now(); }
bool RequestContext::cancelled() const { return state_->cancelled(); }

absl::Status RequestContext::Check() const {
  if (cancelled()) return absl::CancelledError("request cancelled");
  if (absl::Now() >= deadline_) return absl::DeadlineExceededError("deadline exceeded");
  return absl::OkStatus();
}

CancelRegistration RequestContext::OnCancel(std::function<void()> callback) const {
  CancelRegistration registration;
  registration.id_ = state_->Register(std::move(callback));
  registration.state_ = state_;
  return registration;
}

}  // namespace cairn
