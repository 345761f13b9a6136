// Executor: a fixed set of threads behind a bounded queue. Handlers of calls run here, never on
// gRPC's own threads.
//
// A role has its own executor: a handler that calls another role (agent -> retrieval -> inference)
// waits for threads of another executor, so calls cannot wait for each other in a circle.
//
// Threads: thread-safe. The destructor runs what was admitted and then joins.
// Errors:  Submit gives RESOURCE_EXHAUSTED, reason QUEUE_FULL, with a retry delay, and changes
//          nothing when `max_queued` tasks wait and every thread is busy.
#ifndef CAIRN_SERVICES_RUNTIME_EXECUTOR_H_
#define CAIRN_SERVICES_RUNTIME_EXECUTOR_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace cairn::services {

struct ExecutorOptions {
  int num_threads = 16;  // tasks that run together; idle threads cost little
  int max_queued = 64;   // admitted tasks that wait for a thread
};

class Executor {
 public:
  Executor(std::string name, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  absl::Status Submit(std::function<void()> task);
  // The next piece of a call that was admitted before: never refused. REQUIRES: the caller bounds
  // the calls that do this, and has one piece waiting at a time.
  void Continue(std::function<void()> task);

  int num_running() const;
  int num_queued() const;

 private:
  void Work();

  const std::string name_;
  const ExecutorOptions options_;
  mutable std::mutex mutex_;  // guards queue_, num_running_, stopping_
  std::condition_variable work_;
  std::deque<std::function<void()>> queue_;
  int num_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_EXECUTOR_H_
