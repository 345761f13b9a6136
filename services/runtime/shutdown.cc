#include "services/runtime/shutdown.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"

namespace cairn::services {
namespace {

struct State {
  CancelSource source;
  absl::Notification notified;
  std::atomic<int> signal = 0;
};

State& Get() {
  static State* state = new State();  // outlives every thread
  return *state;
}

void Listen(sigset_t set) {
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (Get().signal.exchange(signal) != 0) _exit(128 + signal);
    Get().source.Cancel();
    Get().notified.Notify();
  }
}

}  // namespace

void ShutdownSignal::Install() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error to report, not a death
  std::thread(Listen, set).detach();
}

int ShutdownSignal::Wait() {
  Get().notified.WaitForNotification();
  return Get().signal;
}
const CancelSource& ShutdownSignal::Source() { return Get().source; }
int ShutdownSignal::Received() { return Get().signal; }

}  // namespace cairn::services
