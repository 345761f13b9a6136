// Readiness decides, again and again, which of this process' services can answer, and tells the
// health service. A role is ready when what it owns is open and the roles it needs answer:
//
//   inference   no model is loading any more, and one can be used or none is configured
//
//   retrieval   the embedder has stopped loading (later it may be away: searches say "degraded")
//
//   ingest      retrieval, and the embedder if one is configured
//
//   agent       retrieval and the generator
//
//   ""          every role of this process; of the agent, without a generator by choice, only what
//               it needs to answer that it has none: a server may be for search alone
//
// Threads: thread-safe. The check runs on its own thread, every kInterval.
#ifndef CAIRN_SERVICES_SERVER_READINESS_H_
#define CAIRN_SERVICES_SERVER_READINESS_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

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

  // "ready" or "not ready", then a line for each role that cannot do its work, with the reason.
  std::string Report() const;
  // Ends the checks: what was found last stays.
  void Stop();

 private:
  struct Model {
    bool configured = false;
    bool loading = false;
    bool ready = false;
    std::string why;  // it is not ready
  };
  struct Models {
    Model generator, embedder;
    std::string loading;  // names
    bool any = false;     // one can be used, or none is configured
  };

  void Run();
  void Check();
  Models LocalModels() const;
  Models RemoteModels();
  // Asks another process.
  enum class Answer { kServing, kNotServing, kUnknownName, kNoAnswer };
  Answer Ask(RoleChannel* channel, const std::string& name);

  const ReadinessOptions options_;
  HealthService* health_;
  bool retrieval_was_ready_ = false;
  CancelSource stop_;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;             // guarded by mutex_
  std::string report_ = "not ready";  // guarded by mutex_
  std::thread thread_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_SERVER_READINESS_H_
