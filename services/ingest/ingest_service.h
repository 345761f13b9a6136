// The ingest role: cairn.ingest.v1 over an Ingestor.
#ifndef CAIRN_SERVICES_INGEST_INGEST_SERVICE_H_
#define CAIRN_SERVICES_INGEST_INGEST_SERVICE_H_

#include <memory>

#include "absl/synchronization/mutex.h"
#include "common/status.h"
#include "grpcpp/impl/service_type.h"
#include "retrieval/ingest/ingestor.h"
#include "services/runtime/call_scope.h"

namespace cairn::services {

// The ingestor, as handlers reach it. It is there once jobs may run, and gone before the server
// drains: jobs call other roles, and a job that met a server half shut down would count as failed.
//
// Threads: thread-safe.
class IngestorGate {
 public:
  void Set(std::shared_ptr<retrieval::Ingestor> ingestor);
  // UNAVAILABLE before Set and after Close.
  absl::StatusOr<std::shared_ptr<retrieval::Ingestor>> Get() const;
  // Returns when no handler holds the ingestor any more and it has ended. Watches must have been
  // cancelled (DrainList::Drain).
  void Close();

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<retrieval::Ingestor> ingestor_ ABSL_GUARDED_BY(mutex_);
};

// `watchers` runs the job watches, which wait more than they work, so that they do not hold the
// threads of the others. All outlive the service.
std::unique_ptr<grpc::Service> MakeIngestService(const CallRuntime& runtime, Executor* watchers,
                                                 IngestorGate* ingestor);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_INGEST_INGEST_SERVICE_H_
