// ModelPool: the models that this process serves, loaded in the background, one after the other in
// the order embedder, reranker, generator: search works while the large one still loads.
//
// Ownership: the pool owns the models; pointers it gives are good until it is destroyed.
// Threads:   thread-safe.
// Errors:    a model that loads is UNAVAILABLE (MODEL_LOADING) with a retry delay; one that the
//            server does not serve NOT_FOUND (MODEL_NOT_FOUND), or FAILED_PRECONDITION
//            (NO_GENERATOR) where a generator is wanted of a server without one; one that is not on
//            the machine
//            FAILED_PRECONDITION (MODEL_NOT_FETCHED) with the command that fetches it; one whose
//            file is broken FAILED_PRECONDITION (MODEL_UNUSABLE) with what the loader said.
#ifndef CAIRN_SERVICES_INFERENCE_MODEL_POOL_H_
#define CAIRN_SERVICES_INFERENCE_MODEL_POOL_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/status.h"
#include "engine/encoder/encoder.h"
#include "engine/engine.h"
#include "services/models/registry.h"

namespace cairn::services {

struct ModelPoolOptions {
  // Names known to the registry, or paths; empty for none.
  std::string generator, embedder, reranker;
  engine::EngineOptions engine;
  engine::EncoderOptions encoder;
};

struct ModelStatus {
  enum class State { kLoading, kReady, kFailed };
  std::string name;
  ModelRole role = ModelRole::kGenerator;
  State state = State::kLoading;
  absl::Status error;  // when failed
  std::vector<std::string> languages;
  engine::Engine* engine = nullptr;    // of a generator that is ready
  engine::Encoder* encoder = nullptr;  // of another that is ready
};

class ModelPool {
 public:
  // Begins to load. `on_change` is called on the loading thread after each model; it may be empty.
  ModelPool(const ModelPoolOptions& options, const ModelRegistry& registry,
            std::function<void(const ModelStatus&)> on_change);
  // Waits for the model that is being loaded.
  ~ModelPool();

  // "" is the model of that role.
  absl::StatusOr<engine::Engine*> Generator(std::string_view name) const;
  absl::StatusOr<engine::Encoder*> Embedder(std::string_view name) const;
  absl::StatusOr<engine::Encoder*> Reranker(std::string_view name) const;
  // Of any role; "" is the generator.
  absl::StatusOr<ModelStatus> Find(std::string_view name) const;
  // All that are configured, in the order of loading.
  std::vector<ModelStatus> List() const;
  // The name behind "" for a role; "" when there is none.
  std::string DefaultName(ModelRole role) const;

 private:
  struct Slot;
  absl::StatusOr<const Slot*> FindReady(ModelRole role, std::string_view name) const;
  void Load(const ModelPoolOptions& options, const ModelRegistry& registry,
            const std::function<void(const ModelStatus&)>& on_change);

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_;  // fixed after construction; contents under mutex_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread loader_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_INFERENCE_MODEL_POOL_H_
