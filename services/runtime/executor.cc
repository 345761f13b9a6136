#include "services/runtime/executor.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "common/strings.h"

namespace cairn::services {

Executor::Executor(std::string name, const ExecutorOptions& options)
    : name_(std::move(name)), options_(options) {
  CAIRN_CHECK(options_.num_threads > 0 && options_.max_queued > 0);
  threads_.reserve(options_.num_threads);
  for (int i = 0; i < options_.num_threads; ++i) threads_.emplace_back([this] { Work(); });
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status Executor::Submit(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (stopping_) return absl::UnavailableError(StrCat(name_, " is stopping"));
  // Counted together with those that run: a task just queued for an idle thread is no backlog.
  const int admitted = num_running_ + static_cast<int>(queue_.size());
  if (admitted >= options_.num_threads + options_.max_queued) {
    return WithRetryAfter(
        WithReason(absl::ResourceExhaustedError(
                       StrCat(name_, ": ", num_running_, " calls running and ", queue_.size(),
                              " waiting, the limit is ", options_.max_queued)),
                   "QUEUE_FULL"),
        absl::Seconds(1));
  }
  queue_.push_back(std::move(task));
  work_.notify_one();
  return absl::OkStatus();
}

void Executor::Continue(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  work_.notify_one();
}

int Executor::num_running() const {
  std::lock_guard lock(mutex_);
  return num_running_;
}

int Executor::num_queued() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(queue_.size());
}

void Executor::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;  // stopping, and all that was admitted has run
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    ++num_running_;
    lock.unlock();
    task();
    task = nullptr;  // what it holds is released outside the lock
    lock.lock();
    --num_running_;
  }
}

}  // namespace cairn::services
