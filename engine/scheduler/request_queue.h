// RequestQueue: requests that wait for admission, first come first served, bounded.
//
// The head is never overtaken: a large request is not starved by small ones behind it.
// Threads: thread-safe. One thread takes requests out.
#ifndef CAIRN_ENGINE_SCHEDULER_REQUEST_QUEUE_H_
#define CAIRN_ENGINE_SCHEDULER_REQUEST_QUEUE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn::engine {

template <typename Request>
class RequestQueue {
 public:
  explicit RequestQueue(size_t capacity) : capacity_(capacity) {}

  // False, and nothing happens, when the queue is full.
  bool Push(std::shared_ptr<Request> request) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (requests_.size() >= capacity_) return false;
    requests_.push_back(std::move(request));
    return true;
  }

  // The longest-waiting request, or null.
  std::shared_ptr<Request> Front() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return requests_.empty() ? nullptr : requests_.front();
  }
  // REQUIRES: not empty.
  void PopFront() {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_.pop_front();
  }

  // Takes out, wherever they stand, the requests for which `gone` holds.
  std::vector<std::shared_ptr<Request>> RemoveIf(const std::function<bool(const Request&)>& gone) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<Request>> removed;
    std::deque<std::shared_ptr<Request>> kept;
    for (std::shared_ptr<Request>& request : requests_) {
      if (gone(*request)) {
        removed.push_back(std::move(request));
      } else {
        kept.push_back(std::move(request));
      }
    }
    requests_.swap(kept);
    return removed;
  }

  size_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return requests_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Request>> requests_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_REQUEST_QUEUE_H_
