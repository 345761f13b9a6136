// DrainList: what must end when the server drains. Calls that live as long as their client likes
// (health watches, job watches, reflection streams) register how to end themselves; without it a
// single open watch would hold every shutdown until its time limit.
//
// Threads: thread-safe. A callback may run at most once, from Drain, and may run while or after
//          Remove is called: it must hold what it touches (weak pointers, shared state).
#ifndef CAIRN_SERVICES_RUNTIME_DRAIN_LIST_H_
#define CAIRN_SERVICES_RUNTIME_DRAIN_LIST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/synchronization/mutex.h"

namespace cairn::services {

class DrainList {
 public:
  // Runs `end` at once when the drain has begun.
  uint64_t Add(std::function<void()> end) {
    {
      absl::MutexLock lock(&mutex_);
      if (!draining_) {
        entries_.emplace(++last_id_, std::move(end));
        return last_id_;
      }
    }
    end();
    return 0;
  }
  void Remove(uint64_t id) {
    absl::MutexLock lock(&mutex_);
    entries_.erase(id);
  }
  void Drain() {
    std::map<uint64_t, std::function<void()>> entries;
    {
      absl::MutexLock lock(&mutex_);
      draining_ = true;
      entries.swap(entries_);
    }
    for (auto& [id, end] : entries) end();
  }

 private:
  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::function<void()>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_DRAIN_LIST_H_
