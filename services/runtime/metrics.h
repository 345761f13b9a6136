// Metrics of one process, in the Prometheus data model. Label values come from fixed sets: the
// names of our own methods, gRPC codes, stages. Never a path, a user, a document or a collection.
//
//   cairn_rpc_duration_seconds{method,code}   histogram; its count is the number of calls
//   cairn_rpc_in_flight{method}               gauge
//   cairn_<name>                              gauges registered with AddGauge
//
// Threads: thread-safe.
#ifndef CAIRN_SERVICES_RUNTIME_METRICS_H_
#define CAIRN_SERVICES_RUNTIME_METRICS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace cairn::services {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  void RpcStarted(std::string_view method);
  void RpcEnded(std::string_view method, absl::StatusCode code, absl::Duration duration);

  // A value read at each scrape, from the scraping thread. `read` must stay callable until
  // RemoveGauges.
  void AddGauge(std::string_view name, std::string_view help, std::function<double()> read);
  // After it returns no `read` is running or will run.
  void RemoveGauges();

  // Text exposition format 0.0.4.
  std::string Expose() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "OK", "INVALID_ARGUMENT", ...: gRPC's names.
std::string_view StatusCodeName(absl::StatusCode code);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_METRICS_H_
