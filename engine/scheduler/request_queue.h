// RequestQueue: requests that wait for admission, in the order of a policy, bounded.
//
// Whoever is next is never overtaken because it is large: a request that needs much room is not
// starved by small ones behind it.
// Threads: thread-safe. One thread takes requests out.
#ifndef CAIRN_ENGINE_SCHEDULER_REQUEST_QUEUE_H_
#define CAIRN_ENGINE_SCHEDULER_REQUEST_QUEUE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/scheduler/queue_policy.h"

namespace cairn::engine {

template <typename Request>
class RequestQueue {
 public:
  RequestQueue(size_t capacity, std::unique_ptr<QueuePolicy> policy)
      : capacity_(capacity), policy_(std::move(policy)) {}

  // False, and nothing happens, when the queue is full.
  bool Push(const QueueTicket& ticket, std::shared_ptr<Request> request) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (entries_.size() >= capacity_) return false;
    entries_.push_back({ticket, std::move(request)});
    return true;
  }

  // The request that is next at `now`, or null.
  std::shared_ptr<Request> Next(absl::Time now) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const Entry* next = nullptr;
    double lowest = 0;
    for (const Entry& entry : entries_) {
      const double rank = policy_->Rank(entry.ticket, now);
      if (next != nullptr && rank >= lowest) continue;
      next = &entry;
      lowest = rank;
    }
    return next == nullptr ? nullptr : next->request;
  }

  // Takes out, wherever they stand, the requests for which `gone` holds.
  std::vector<std::shared_ptr<Request>> RemoveIf(const std::function<bool(const Request&)>& gone) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<Request>> removed;
    std::erase_if(entries_, [&](Entry& entry) {
      if (!gone(*entry.request)) return false;
      removed.push_back(std::move(entry.request));
      return true;
    });
    return removed;
  }

  size_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    QueueTicket ticket;
    std::shared_ptr<Request> request;
  };
  const size_t capacity_;
  const std::unique_ptr<QueuePolicy> policy_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // in order of arrival
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_REQUEST_QUEUE_H_
