#include "services/inference/model_pool.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/log.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

constexpr absl::Duration kRetryWhileLoading = absl::Seconds(2);

// A server without a generator is a choice of who runs it, whatever name is asked for.
absl::Status NoGenerator() {
  return WithReason(
      absl::FailedPreconditionError(
          "there is no generator: models.generator is empty in the inference role's settings"),
      "NO_GENERATOR");
}

absl::Status NotServed(std::string_view name, std::string_view role) {
  return WithReason(
      WithField(absl::NotFoundError(
                    name.empty() ? StrCat("this server has no ", role)
                                 : StrCat("this server serves no ", role, " named \"", name, "\"")),
                "model"),
      "MODEL_NOT_FOUND");
}

absl::Status NotReady(const ModelStatus& status) {
  if (status.state == ModelStatus::State::kFailed) return status.error;
  return WithRetryAfter(
      WithReason(absl::UnavailableError(StrCat("model ", status.name, " is loading")),
                 "MODEL_LOADING"),
      kRetryWhileLoading);
}

// The loader's words about the file, as an error of the one who asks for the model: whatever the
// loader calls it, the request was good and the server's file is not.
absl::Status Unusable(std::string_view name, const absl::Status& loaded) {
  if (loaded.ok() || ReasonOf(loaded) == "MODEL_NOT_FETCHED") return loaded;
  return WithReason(
      absl::FailedPreconditionError(StrCat("model ", name, " cannot be used: ", loaded.message())),
      "MODEL_UNUSABLE");
}

std::vector<std::string> LanguagesOf(const ModelRegistry& registry, const std::string& name) {
  const auto entry = registry.Find(name);
  return entry.ok() ? (*entry)->languages : std::vector<std::string>();
}

}  // namespace

struct ModelPool::Slot {
  ModelStatus status;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::Encoder> encoder;
};

ModelPool::ModelPool(const ModelPoolOptions& options, const ModelRegistry& registry,
                     std::function<void(const ModelStatus&)> on_change) {
  const auto add = [&](ModelRole role, const std::string& name) {
    if (name.empty()) return;
    auto slot = std::make_unique<Slot>();
    slot->status.name = name;
    slot->status.role = role;
    slot->status.languages = LanguagesOf(registry, name);
    slots_.push_back(std::move(slot));
  };
  add(ModelRole::kEmbedder, options.embedder);
  add(ModelRole::kReranker, options.reranker);
  add(ModelRole::kGenerator, options.generator);
  loader_ =
      std::thread([this, options, registry, on_change] { Load(options, registry, on_change); });
}

ModelPool::~ModelPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  loader_.join();
}

void ModelPool::Load(const ModelPoolOptions& options, const ModelRegistry& registry,
                     const std::function<void(const ModelStatus&)>& on_change) {
  for (const auto& slot : slots_) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    const std::string& name = slot->status.name;
    const absl::Time start = absl::Now();
    std::unique_ptr<engine::Engine> engine;
    std::unique_ptr<engine::Encoder> encoder;
    const absl::Status loaded = [&]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(const std::string path, registry.PathOf(name));
      if (slot->status.role == ModelRole::kGenerator) {
        CAIRN_ASSIGN_OR_RETURN(engine, engine::Engine::Load(path, options.engine));
        return absl::OkStatus();
      }
      CAIRN_ASSIGN_OR_RETURN(encoder, engine::Encoder::Load(path, options.encoder));
      const bool reranks = slot->status.role == ModelRole::kReranker;
      if (encoder->is_cross_encoder() == reranks) return absl::OkStatus();
      return absl::FailedPreconditionError(
          StrCat("model ", name, reranks ? " is no reranker" : " is no embedder"));
    }();
    ModelStatus status;
    {
      absl::MutexLock lock(&mutex_);
      slot->engine = std::move(engine);
      slot->encoder = std::move(encoder);
      slot->status.engine = slot->engine.get();
      slot->status.encoder = slot->encoder.get();
      slot->status.state = loaded.ok() ? ModelStatus::State::kReady : ModelStatus::State::kFailed;
      slot->status.error = Unusable(name, loaded);
      status = slot->status;
    }
    if (loaded.ok()) {
      log::Info("model ready", {{"model", name},
                                {"role", ModelRoleName(status.role)},
                                {"ms", absl::ToInt64Milliseconds(absl::Now() - start)}});
    } else {
      log::Error(
          "model cannot be used",
          {{"model", name}, {"role", ModelRoleName(status.role)}, {"error", loaded.message()}});
    }
    if (on_change) on_change(status);
  }
}

absl::StatusOr<const ModelPool::Slot*> ModelPool::FindReady(ModelRole role,
                                                            std::string_view name) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& slot : slots_) {
    if (slot->status.role != role || (!name.empty() && slot->status.name != name)) continue;
    if (slot->status.state != ModelStatus::State::kReady) return NotReady(slot->status);
    return slot.get();
  }
  if (role == ModelRole::kGenerator && DefaultName(role).empty()) return NoGenerator();
  return NotServed(name, ModelRoleName(role));
}

absl::StatusOr<engine::Engine*> ModelPool::Generator(std::string_view name) const {
  CAIRN_ASSIGN_OR_RETURN(const Slot* slot, FindReady(ModelRole::kGenerator, name));
  return slot->engine.get();
}
absl::StatusOr<engine::Encoder*> ModelPool::Embedder(std::string_view name) const {
  CAIRN_ASSIGN_OR_RETURN(const Slot* slot, FindReady(ModelRole::kEmbedder, name));
  return slot->encoder.get();
}
absl::StatusOr<engine::Encoder*> ModelPool::Reranker(std::string_view name) const {
  CAIRN_ASSIGN_OR_RETURN(const Slot* slot, FindReady(ModelRole::kReranker, name));
  return slot->encoder.get();
}

absl::StatusOr<ModelStatus> ModelPool::Find(std::string_view name) const {
  for (const ModelStatus& status : List()) {
    if (name.empty() ? status.role != ModelRole::kGenerator : status.name != name) continue;
    if (status.state != ModelStatus::State::kReady) return NotReady(status);
    return status;
  }
  return name.empty() ? NoGenerator() : NotServed(name, "model");
}

std::vector<ModelStatus> ModelPool::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModelStatus> out;
  for (const auto& slot : slots_) out.push_back(slot->status);
  return out;
}

std::string ModelPool::DefaultName(ModelRole role) const {
  for (const auto& slot : slots_) {
    if (slot->status.role == role) return slot->status.name;
  }
  return "";
}

}  // namespace cairn::services
