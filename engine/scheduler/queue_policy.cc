#include "engine/scheduler/queue_policy.h"

#include "common/strings.h"

namespace cairn::engine {
namespace {

// Ten seconds: about what a request of the level above takes, so that urgent ones pass in a burst
// and the others are through a minute after it.
constexpr absl::Duration kAgeingPeriod = absl::Seconds(10);
// About the speed of a prompt on a small machine: a long one is overtaken by those that would be
// done before it, had all come at once.
constexpr double kAgeingTokensPerSecond = 100;

class FirstCome : public QueuePolicy {
 public:
  double Rank(const QueueTicket&, absl::Time) const override { return 0; }
};

class PriorityWithAgeing : public QueuePolicy {
 public:
  double Rank(const QueueTicket& ticket, absl::Time now) const override {
    return -ticket.priority - absl::FDivDuration(now - ticket.queued_at, kAgeingPeriod);
  }
};

class ShortestPrompt : public QueuePolicy {
 public:
  double Rank(const QueueTicket& ticket, absl::Time now) const override {
    return ticket.num_prompt_tokens -
           kAgeingTokensPerSecond * absl::ToDoubleSeconds(now - ticket.queued_at);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<QueuePolicy>> QueuePolicyByName(std::string_view name) {
  std::unique_ptr<QueuePolicy> policy;
  if (name == "first_come") {
    policy = std::make_unique<FirstCome>();
  } else if (name == "priority") {
    policy = std::make_unique<PriorityWithAgeing>();
  } else if (name == "shortest_prompt") {
    policy = std::make_unique<ShortestPrompt>();
  } else {
    return InvalidField("queue_policy", StrCat("\"", name,
                                               "\" is not one of first_come, priority, "
                                               "shortest_prompt"));
  }
  return policy;
}

}  // namespace cairn::engine
