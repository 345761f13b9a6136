// RunStore keeps agent runs and their steps in one SQLite file (WAL). Owner checks, threads and
// errors are as for SessionStore. A run found in state kRunning at Open was cut off by the end of
// its process: it is marked failed.
#ifndef CAIRN_AGENT_RUN_RUN_STORE_H_
#define CAIRN_AGENT_RUN_RUN_STORE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/run/run_types.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

struct RunInfo {
  std::string id;
  std::string task;
  std::string collection;
  absl::Time created, updated;
  RunFinal final;  // status kRunning while it runs
  int num_events = 0;
};

struct RunRecord {
  RunInfo info;
  std::vector<RunEvent> events;  // in order; the last is a RunFinal when the run has ended
};

class RunStore {
 public:
  static absl::StatusOr<std::unique_ptr<RunStore>> Open(const std::string& path);
  virtual ~RunStore() = default;

  // Returns the id of the new run (128 random bits in hex).
  virtual absl::StatusOr<std::string> Create(const RequestContext& context,
                                             const RunRequest& request) = 0;
  // Durable when it returns. A RunFinal also sets the state of the run; after it nothing may be
  // appended.
  virtual absl::Status Append(const RequestContext& context, std::string_view run_id,
                              const RunEvent& event) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<RunInfo>> List(const RequestContext& context, int limit) = 0;
  virtual absl::StatusOr<RunRecord> Get(const RequestContext& context, std::string_view run_id) = 0;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_RUN_RUN_STORE_H_
