#include "services/runtime/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace cairn::services {
namespace {

// From a metadata read to a long generation, in seconds.
const prometheus::Histogram::BucketBoundaries kBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};

}  // namespace

struct Metrics::State {
  struct ReadGauge {
    prometheus::Gauge* gauge;
    std::function<double()> read;
  };

  prometheus::Registry registry;
  prometheus::Family<prometheus::Histogram>& durations =
      prometheus::BuildHistogram()
          .Name("cairn_rpc_duration_seconds")
          .Help("Time from the arrival of a call to its status")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& in_flight = prometheus::BuildGauge()
                                                         .Name("cairn_rpc_in_flight")
                                                         .Help("Calls that have not ended")
                                                         .Register(registry);
  absl::Mutex mutex;
  std::vector<ReadGauge> gauges ABSL_GUARDED_BY(mutex);
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::RpcStarted(std::string_view method) {
  state_->in_flight.Add({{"method", std::string(method)}}).Increment();
}

void Metrics::RpcEnded(std::string_view method, absl::StatusCode code, absl::Duration duration) {
  const std::string name(method);
  state_->in_flight.Add({{"method", name}}).Decrement();
  state_->durations.Add({{"method", name}, {"code", std::string(StatusCodeName(code))}}, kBuckets)
      .Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::AddGauge(std::string_view name, std::string_view help, std::function<double()> read) {
  prometheus::Gauge& gauge = prometheus::BuildGauge()
                                 .Name("cairn_" + std::string(name))
                                 .Help(std::string(help))
                                 .Register(state_->registry)
                                 .Add({});
  absl::MutexLock lock(&state_->mutex);
  state_->gauges.push_back({&gauge, std::move(read)});
}

void Metrics::RemoveGauges() {
  absl::MutexLock lock(&state_->mutex);
  state_->gauges.clear();
}

std::string Metrics::Expose() const {
  {
    absl::MutexLock lock(&state_->mutex);
    for (auto& [gauge, read] : state_->gauges) gauge->Set(read());
  }
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

std::string_view StatusCodeName(absl::StatusCode code) {
  static constexpr std::string_view kNames[] = {"OK",
                                                "CANCELLED",
                                                "UNKNOWN",
                                                "INVALID_ARGUMENT",
                                                "DEADLINE_EXCEEDED",
                                                "NOT_FOUND",
                                                "ALREADY_EXISTS",
                                                "PERMISSION_DENIED",
                                                "RESOURCE_EXHAUSTED",
                                                "FAILED_PRECONDITION",
                                                "ABORTED",
                                                "OUT_OF_RANGE",
                                                "UNIMPLEMENTED",
                                                "INTERNAL",
                                                "UNAVAILABLE",
                                                "DATA_LOSS",
                                                "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

}  // namespace cairn::services
