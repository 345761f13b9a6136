// QueuePolicy: who of the waiting requests is admitted next.
#ifndef CAIRN_ENGINE_SCHEDULER_QUEUE_POLICY_H_
#define CAIRN_ENGINE_SCHEDULER_QUEUE_POLICY_H_

#include <memory>
#include <string_view>

#include "absl/time/time.h"
#include "common/status.h"

namespace cairn::engine {

// What a policy may look at.
struct QueueTicket {
  int priority = 0;  // larger is more urgent
  int num_prompt_tokens = 0;
  absl::Time queued_at;
};

class QueuePolicy {
 public:
  virtual ~QueuePolicy() = default;
  // The request of the lowest rank is next; of equal ranks, the one that came first. Policies other
  // than first come lower a rank with the time waited, without limit: nobody waits for ever.
  virtual double Rank(const QueueTicket& ticket, absl::Time now) const = 0;
};

// "first_come"; "priority": a request gains one level of priority every ten seconds that it waits;
// "shortest_prompt": a prompt counts as 100 tokens shorter for every second that it waits.
// INVALID_ARGUMENT, field queue_policy, for another name.
absl::StatusOr<std::unique_ptr<QueuePolicy>> QueuePolicyByName(std::string_view name);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_QUEUE_POLICY_H_
