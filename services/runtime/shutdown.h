// SIGINT and SIGTERM as a request to stop: the first asks, the second quits at once (exit code 130
// or 143). Call Install first in main, before threads start.
#ifndef CAIRN_SERVICES_RUNTIME_SHUTDOWN_H_
#define CAIRN_SERVICES_RUNTIME_SHUTDOWN_H_

#include "common/context.h"

namespace cairn::services {

class ShutdownSignal {
 public:
  // Starts the thread that waits for signals; they stay blocked in every other thread. At most once
  // in a process.
  static void Install();
  // Blocks until the first signal, and returns its number.
  static int Wait();
  // Cancelled by the first signal.
  static const CancelSource& Source();
  // 0 when none has come.
  static int Received();
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_SHUTDOWN_H_
