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
  if (options_.inference) health_->Set(kInferenceName, false);
  if (options_.ingest) health_->Set(kIngestName, false);
  if (options_.retrieval) health_->Set(kRetrievalName, false);
  if (options_.agent) health_->Set(kAgentName, false);
  thread_ = std::thread([this] { Run(); });
}

Readiness::~Readiness() {
  stop_.Cancel();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Readiness::Run() {
  bool announced = false;
  while (true) {
    Check();
    if (!announced && health_->IsServing("")) {
      announced = true;
      log::Info("ready");
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kInterval)) return;
  }
}

Readiness::Models Readiness::LocalModels() const {
  Models out;
  out.embedder = out.embedder_settled = true;  // until one is seen: none by choice
  const auto models = options_.models->List();
  out.any = models.empty();
  for (const ModelStatus& model : models) {
    const bool ready = model.state == ModelStatus::State::kReady;
    const bool loading = model.state == ModelStatus::State::kLoading;
    health_->Set(ModelHealthName(model.role), ready);
    out.loading |= loading;
    out.any |= ready;
    if (model.role == ModelRole::kGenerator) out.generator = ready;
    if (model.role == ModelRole::kEmbedder) {
      out.embedder = ready;
      out.embedder_settled = !loading;
    }
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
  Models out;
  const Answer embedder = Ask(options_.inference_channel, ModelHealthName(ModelRole::kEmbedder));
  out.embedder = embedder == Answer::kServing || embedder == Answer::kUnknownName;
  // The role as a whole serves once nothing loads any more.
  out.embedder_settled =
      out.embedder || Ask(options_.inference_channel, kInferenceName) == Answer::kServing;
  out.generator =
      Ask(options_.inference_channel, ModelHealthName(ModelRole::kGenerator)) == Answer::kServing;
  return out;
}

void Readiness::Check() {
  const Models models = options_.inference ? LocalModels() : RemoteModels();
  bool all = true;
  const auto set = [&](bool here, const char* name, bool ready) {
    if (!here) return;
    health_->Set(name, ready);
    all &= ready;
  };
  set(options_.inference, kInferenceName, !models.loading && models.any);

  bool retrieval = false;
  if (options_.retrieval) {
    retrieval_was_ready_ |= models.embedder_settled;
    retrieval = retrieval_was_ready_;
  } else if (options_.ingest || options_.agent) {
    retrieval = Ask(options_.retrieval_channel, kRetrievalName) == Answer::kServing;
  }
  set(options_.retrieval, kRetrievalName, retrieval);
  set(options_.ingest, kIngestName, retrieval && models.embedder);
  set(options_.agent, kAgentName, retrieval && models.generator);
  health_->Set("", all);
}

}  // namespace cairn::services
