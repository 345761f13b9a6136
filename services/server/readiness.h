// Readiness decides, again and again, which of this process' services can answer, and tells the
// health service. A role is ready when what it owns is open and the roles it needs answer:
//
//   inference   no model is loading any more, and one can be used or none is configured
//   retrieval   the embedder has stopped loading (later it may be away: searches then say
//   "degraded") ingest      retrieval, and the embedder if one is configured agent       retrieval
//   and the generator
//   ""          every role of this process
//
// Threads: thread-safe. The check runs on its own thread, every kInterval.
#ifndef CAIRN_SERVICES_SERVER_READINESS_H_
#define CAIRN_SERVICES_SERVER_READINESS_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "services/clients/role_channel.h"
#include "services/inference/model_pool.h"
#include "services/runtime/health.h"

namespace cairn::services {

inline constexpr char kInferenceName[] = "cairn.inference.v1.InferenceService";
inline constexpr char kIngestName[] = "cairn.ingest.v1.IngestService";
inline constexpr char kRetrievalName[] = "cairn.retrieval.v1.RetrievalService";
inline constexpr char kAgentName[] = "cairn.agent.v1.AgentService";
// "cairn.model.generator" and so on.
std::string ModelHealthName(ModelRole role);

struct ReadinessOptions {
  bool inference = false, ingest = false, retrieval = false, agent = false;  // in this process
  const ModelPool* models = nullptr;  // when inference is in this process
  // Where the others are.
  RoleChannel* inference_channel = nullptr;
  RoleChannel* retrieval_channel = nullptr;
};

class Readiness {
 public:
  // Both outlive this object.
  Readiness(const ReadinessOptions& options, HealthService* health);
  ~Readiness();

 private:
  struct Models {
    bool loading = false;           // one of them
    bool any = false;               // one can be used
    bool generator = false;         // it can be used
    bool embedder = false;          // it can be used, or there is none by choice
    bool embedder_settled = false;  // it is not loading
  };

  void Run();
  void Check();
  Models LocalModels() const;
  Models RemoteModels();
  // Asks another process; false when it does not say SERVING.
  enum class Answer { kServing, kNotServing, kUnknownName, kNoAnswer };
  Answer Ask(RoleChannel* channel, const std::string& name);

  const ReadinessOptions options_;
  HealthService* health_;
  bool retrieval_was_ready_ = false;
  CancelSource stop_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_SERVER_READINESS_H_
