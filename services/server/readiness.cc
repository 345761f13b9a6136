#include "services/server/readiness.h"

#include "common/log.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(250);
constexpr absl::Duration kAskTimeout = absl::Seconds(2);

}  // namespace

std::string ModelHealthName(ModelRole role) { return StrCat("cairn.model.", ModelRoleName(role)); }

Readiness::Readiness(const ReadinessOptions& options, HealthService* health)
    : options_(options), health_(health) {
  health_->Set("", false);
  if (options_.inference) {
    for (const ModelStatus& model : options_.models->List()) {
      health_->Set(ModelHealthName(model.role), false);
    }
    health_->Set(kInferenceName, false);
  }
  if (options_.ingest) health_->Set(kIngestName, false);
  if (options_.retrieval) health_->Set(kRetrievalName, false);
  if (options_.agent) health_->Set(kAgentName, false);
  thread_ = std::thread([this] { Run(); });
}

Readiness::~Readiness() { Stop(); }

void Readiness::Stop() {
  stop_.Cancel();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string Readiness::Report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

void Readiness::Run() {
  bool announced = false;
  while (true) {
    Check();
    if (!announced && health_->IsServing("")) {
      announced = true;
      log::Info("ready");
    }
    std::unique_lock lock(mutex_);
    if (stopped_.wait_for(lock, absl::ToChronoMilliseconds(kInterval),
                          [this] { return stopping_; })) {
      return;
    }
  }
}

Readiness::Models Readiness::LocalModels() const {
  Models out;
  const auto models = options_.models->List();
  out.any = models.empty();
  for (const ModelStatus& status : models) {
    Model model{.configured = true,
                .loading = status.state == ModelStatus::State::kLoading,
                .ready = status.state == ModelStatus::State::kReady};
    model.why =
        model.loading ? StrCat(status.name, " is loading") : std::string(status.error.message());
    health_->Set(ModelHealthName(status.role), model.ready);
    out.any |= model.ready;
    if (model.loading) StrAppend(&out.loading, " ", status.name);
    if (status.role == ModelRole::kGenerator) out.generator = model;
    if (status.role == ModelRole::kEmbedder) out.embedder = model;
  }
  return out;
}

Readiness::Answer Readiness::Ask(RoleChannel* channel, const std::string& name) {
  const RequestContext context = RequestContext(stop_).WithTimeout(kAskTimeout);
  const auto connected = channel->Get(context);
  if (!connected.ok()) return Answer::kNoAnswer;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(name);
  grpc::health::v1::HealthCheckResponse response;
  ClientCall call(context);
  const absl::Status status = call.Result(
      grpc::health::v1::Health::NewStub(*connected)->Check(call.get(), request, &response));
  if (absl::IsNotFound(status)) return Answer::kUnknownName;
  if (!status.ok()) return Answer::kNoAnswer;
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING ? Answer::kServing
                                                                             : Answer::kNotServing;
}

Readiness::Models Readiness::RemoteModels() {
  // A role that answers for itself has named its models before, so that one it does not know is
  // none by choice; as a whole it serves once nothing loads any more.
  const Answer role = Ask(options_.inference_channel, kInferenceName);
  const bool answers = role == Answer::kServing || role == Answer::kNotServing;
  const auto ask = [&](ModelRole model_role) {
    const Answer answer = Ask(options_.inference_channel, ModelHealthName(model_role));
    Model model{.configured = !answers || answer != Answer::kUnknownName,
                .ready = answer == Answer::kServing,
                .why = answers ? "the inference role has not loaded it"
                               : "the inference role does not answer"};
    model.loading = model.configured && !model.ready && role != Answer::kServing;
    return model;
  };
  return {.generator = ask(ModelRole::kGenerator), .embedder = ask(ModelRole::kEmbedder)};
}

void Readiness::Check() {
  const Models models = options_.inference ? LocalModels() : RemoteModels();
  bool all = true;
  std::string missing;
  const auto set = [&](bool here, const char* role, const char* name, const std::string& why) {
    if (!here) return;
    health_->Set(name, why.empty());
    if (!why.empty()) StrAppend(&missing, "\n", role, ": ", why);
    all &= why.empty();
  };
  set(options_.inference, "inference", kInferenceName,
      !models.loading.empty() ? StrCat("loading", models.loading)
      : models.any            ? ""
                              : "none of its models can be used");

  std::string no_retrieval;
  if (options_.retrieval) {
    retrieval_was_ready_ |= !models.embedder.loading;
    if (!retrieval_was_ready_) no_retrieval = StrCat("embedder: ", models.embedder.why);
  } else if (options_.ingest || options_.agent) {
    const bool serves = Ask(options_.retrieval_channel, kRetrievalName) == Answer::kServing;
    if (!serves) no_retrieval = "the retrieval role does not serve";
  }
  const auto needs = [&](const char* role, const Model& model) {
    if (!no_retrieval.empty() || !model.configured || model.ready) return no_retrieval;
    return StrCat(role, ": ", model.why);
  };
  set(options_.retrieval, "retrieval", kRetrievalName, no_retrieval);
  set(options_.ingest, "ingest", kIngestName, needs("embedder", models.embedder));
  const std::string no_agent = needs("generator", models.generator);
  if (options_.agent && no_agent.empty() && !models.generator.configured) {
    // Nothing to wait for, but whoever asks for the agent by name hears that it cannot do its work.
    health_->Set(kAgentName, false);
    StrAppend(&missing, "\nagent: refuses ask, run and chat: models.generator is empty");
  } else {
    set(options_.agent, "agent", kAgentName, no_agent);
  }
  {
    std::lock_guard lock(mutex_);
    report_ = StrCat(all ? "ready" : "not ready", missing);
  }
  health_->Set("", all);
}

}  // namespace cairn::services
