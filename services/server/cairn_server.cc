#include "services/server/cairn_server.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/strings.h"
#include "services/agent/agent_service.h"
#include "services/gateway/http_server.h"
#include "services/gateway/openai_api.h"
#include "services/inference/inference_service.h"
#include "services/ingest/ingest_service.h"
#include "services/retrieval/retrieval_service.h"
#include "services/runtime/server.h"
#include "services/server/readiness.h"

namespace cairn::services {
namespace {

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(StrCat("cannot create ", path, ": ", error.message()));
}

// What runs the calls of one role.
struct Role {
  Role(const char* name, const ServerConfig& config, Metrics* metrics, DrainList* drain)
      : executor(name, {.num_threads = static_cast<int>(config.limits.threads_per_role),
                        .max_queued = static_cast<int>(config.limits.queue_per_role)}) {
    runtime.executor = &executor;
    runtime.metrics = metrics;
    runtime.drain = drain;
    runtime.stall_limit = absl::Seconds(config.limits.stall_seconds);
    runtime.max_uploads = static_cast<int>(config.limits.max_uploads);
    metrics->AddGauge(StrCat(name, "_calls_running"), "Calls on the role's threads",
                      [this] { return executor.num_running(); });
    metrics->AddGauge(StrCat(name, "_calls_queued"), "Calls that wait for a thread",
                      [this] { return executor.num_queued(); });
  }
  Executor executor;
  CallRuntime runtime;
};

class Server final : public CairnServer {
 public:
  explicit Server(const ServerConfig& config) : config_(config), health_(&drain_) {}
  ~Server() override { Shutdown(absl::ZeroDuration()); }

  absl::Status Start() {
    CAIRN_RETURN_IF_ERROR(MakeDirectory(config_.DataDir()));
    CAIRN_ASSIGN_OR_RETURN(lock_, DirectoryLock::Acquire(config_.DataDir()));
    std::vector<NamedService> services;
    if (config_.HasRole("inference")) CAIRN_RETURN_IF_ERROR(AddInference(&services));
    if (config_.HasRole("retrieval")) CAIRN_RETURN_IF_ERROR(AddRetrieval(&services));
    if (config_.HasRole("ingest")) AddIngest(&services);
    if (config_.HasRole("agent")) CAIRN_RETURN_IF_ERROR(AddAgent(&services));
    CAIRN_ASSIGN_OR_RETURN(
        grpc_,
        GrpcServer::Start({config_.listen, static_cast<int>(config_.limits.max_message_bytes)},
                          services, &health_, &drain_));
    Connect();
    if (config_.HasRole("ingest")) CAIRN_RETURN_IF_ERROR(OpenIngestor());
    StartReadiness();
    if (config_.HasRole("gateway")) CAIRN_RETURN_IF_ERROR(StartGateway());
    return absl::OkStatus();
  }

  const std::string& grpc_address() const override { return grpc_->address(); }
  const std::string& http_address() const override { return http_address_; }

  void Shutdown(absl::Duration limit) override {
    if (std::exchange(shut_down_, true)) return;
    const absl::Time deadline = absl::Now() + limit;
    if (readiness_) readiness_->Stop();
    health_.Shutdown();
    drain_.Drain();
    ingestor_.Close();
    if (http_ != nullptr) http_->Stop(deadline);
    if (grpc_ != nullptr) grpc_->Shutdown(std::max(deadline - absl::Now(), absl::ZeroDuration()));
    for (RoleChannel* channel :
         {&inference_channel_, &ingest_channel_, &retrieval_channel_, &agent_channel_}) {
      channel->Close();
    }
    metrics_.RemoveGauges();
  }

 private:
  absl::Status AddInference(std::vector<NamedService>* services) {
    CAIRN_ASSIGN_OR_RETURN(const ModelRegistry registry, ModelRegistry::Load());
    ModelPoolOptions options;
    options.generator = config_.models.generator;
    options.embedder = config_.models.embedder;
    options.reranker = config_.models.reranker;
    options.engine.max_context = static_cast<int>(config_.models.context_tokens);
    options.engine.kv_cache_tokens = config_.models.kv_tokens;
    options.engine.max_running = static_cast<int>(config_.models.max_running);
    options.engine.step_token_budget = static_cast<int>(config_.models.step_tokens);
    options.engine.max_stall = absl::Milliseconds(config_.models.max_stall_ms);
    options.engine.queue_policy = config_.models.queue_policy;
    options.engine.num_threads = static_cast<int>(config_.models.threads);
    options.encoder.num_threads = static_cast<int>(config_.models.threads);
    models_.emplace(options, registry, [](const ModelStatus& model) {
      if (model.state != ModelStatus::State::kFailed) return;
      const char* effect = model.role == ModelRole::kGenerator ? "asking is not possible"
                           : model.role == ModelRole::kEmbedder
                               ? "search is by words alone, ingestion is not possible"
                               : "results are not reranked";
      log::Warning("running degraded",
                   {{"without", ModelRoleName(model.role)}, {"effect", effect}});
    });
    inference_.emplace("inference", config_, &metrics_, &drain_);
    inference_service_ = MakeInferenceService(inference_->runtime, &*models_);
    services->push_back({kInferenceName, inference_service_.get()});
    AddEngineGauges();
    return absl::OkStatus();
  }

  void AddEngineGauges() {
    const auto stat = [this](auto field) {
      return [this, field]() -> double {
        const auto generator = models_->Generator("");
        return generator.ok() ? static_cast<double>((*generator)->stats().*field) : 0;
      };
    };
    using Stats = engine::EngineStats;
    metrics_.AddGauge("engine_running", "Generations being computed", stat(&Stats::running));
    metrics_.AddGauge("engine_queued", "Generations that wait", stat(&Stats::queued));
    metrics_.AddGauge("engine_kv_tokens_used", "Tokens in the key-value cache",
                      stat(&Stats::kv_tokens_used));
    metrics_.AddGauge("engine_kv_tokens_cached", "Tokens kept for requests that begin alike",
                      stat(&Stats::kv_tokens_cached));
    metrics_.AddGauge("engine_kv_tokens_total", "Room of the key-value cache",
                      stat(&Stats::kv_tokens_total));
    metrics_.AddGauge("engine_prompt_tokens", "Prompt tokens computed since the start",
                      stat(&Stats::prompt_tokens));
    metrics_.AddGauge("engine_cached_prompt_tokens",
                      "Prompt tokens taken from the cache since the start",
                      stat(&Stats::cached_prompt_tokens));
    metrics_.AddGauge("engine_preemptions",
                      "Generations thrown out for want of room and taken up again",
                      stat(&Stats::preemptions));
    metrics_.AddGauge("engine_draft_tokens", "Tokens guessed ahead since the start",
                      stat(&Stats::draft_tokens));
    metrics_.AddGauge("engine_accepted_draft_tokens", "Of them, those that came true",
                      stat(&Stats::accepted_draft_tokens));
    metrics_.AddGauge("engine_completion_tokens", "Tokens generated since the start",
                      stat(&Stats::completion_tokens));
  }

  absl::Status AddRetrieval(std::vector<NamedService>* services) {
    CAIRN_ASSIGN_OR_RETURN(index_,
                           retrieval::Index::Open(config_.DataDir() + "/index",
                                                  {.sync = config_.retrieval.sync_commits}));
    retrieval_.emplace("retrieval", config_, &metrics_, &drain_);
    retrieval_service_ =
        MakeRetrievalService(retrieval_->runtime,
                             {.vector_weight = config_.retrieval.vector_weight,
                              .candidates = static_cast<int>(config_.retrieval.candidates),
                              .rerank_top = static_cast<int>(config_.retrieval.rerank_top),
                              .rerank_weight = config_.retrieval.rerank_weight},
                             index_.get(), &embedder_client_, &reranker_client_);
    services->push_back({kRetrievalName, retrieval_service_.get()});
    const auto stat = [this](auto field) {
      return [this, field] { return static_cast<double>(index_->Stats().*field); };
    };
    using Stats = retrieval::IndexStats;
    metrics_.AddGauge("index_documents", "Documents", stat(&Stats::num_documents));
    metrics_.AddGauge("index_chunks", "Chunks", stat(&Stats::num_chunks));
    metrics_.AddGauge("index_memory_bytes", "Postings, dictionaries and vectors in memory",
                      stat(&Stats::memory_bytes));
    metrics_.AddGauge("searches", "Searches since the start", stat(&Stats::num_searches));
    metrics_.AddGauge("searches_without_vectors", "Of those, degraded to words alone",
                      stat(&Stats::num_degraded_vector));
    metrics_.AddGauge("searches_without_rerank", "Of those, not reranked although asked to",
                      stat(&Stats::num_degraded_rerank));
    return absl::OkStatus();
  }

  void AddIngest(std::vector<NamedService>* services) {
    ingest_.emplace("ingest", config_, &metrics_, &drain_);
    const int watches = static_cast<int>(config_.limits.max_watches);
    watchers_.emplace("job watches",
                      ExecutorOptions{.num_threads = watches, .max_queued = watches});
    ingest_service_ = MakeIngestService(ingest_->runtime, &*watchers_, &ingestor_);
    services->push_back({kIngestName, ingest_service_.get()});
  }

  // After the server listens: jobs that were interrupted go on at once, and call other roles.
  absl::Status OpenIngestor() {
    retrieval::IngestOptions options;
    options.target_tokens = static_cast<int>(config_.ingest.chunk_tokens);
    options.max_source_bytes = config_.limits.max_document_bytes;
    options.max_queued_jobs = config_.ingest.max_queued_jobs;
    options.workers = static_cast<int>(config_.ingest.workers);
    CAIRN_ASSIGN_OR_RETURN(auto ingestor,
                           retrieval::Ingestor::Open(config_.DataDir() + "/jobs", options,
                                                     &ingest_embedder_client_, &sink_client_));
    ingestor_.Set(std::move(ingestor));
    return absl::OkStatus();
  }

  absl::Status AddAgent(std::vector<NamedService>* services) {
    const std::string dir = config_.DataDir() + "/agent";
    CAIRN_RETURN_IF_ERROR(MakeDirectory(dir));
    CAIRN_ASSIGN_OR_RETURN(sessions_, agent::SessionStore::Open(dir + "/sessions.db"));
    CAIRN_ASSIGN_OR_RETURN(runs_, agent::RunStore::Open(dir + "/runs.db"));
    AgentParts parts{&inference_client_, &retrieval_client_, sessions_.get(), runs_.get(), {}};
    parts.ask.default_top_k = static_cast<int>(config_.ask.top_k);
    parts.ask.default_max_tokens = static_cast<int>(config_.ask.max_tokens);
    parts.ask.max_source_tokens = static_cast<int>(config_.ask.source_tokens);
    parts.ask.history_turns = static_cast<int>(config_.ask.history_turns);
    agent_.emplace("agent", config_, &metrics_, &drain_);
    agent_service_ = MakeAgentService(agent_->runtime, parts);
    services->push_back({kAgentName, agent_service_.get()});
    return absl::OkStatus();
  }

  void Connect() {
    const auto connect = [this](const char* role, const std::string& address,
                                RoleChannel* channel) {
      if (config_.HasRole(role)) {
        channel->Set(grpc_->InProcessChannel());
      } else if (!address.empty()) {
        channel->Set(ConnectTo(address, static_cast<int>(config_.limits.max_message_bytes)));
      } else {
        channel->Close();
      }
    };
    connect("inference", config_.addresses.inference, &inference_channel_);
    connect("ingest", config_.addresses.ingest, &ingest_channel_);
    connect("retrieval", config_.addresses.retrieval, &retrieval_channel_);
    connect("agent", config_.addresses.agent, &agent_channel_);
  }

  absl::Status StartGateway() {
    HttpServerOptions options;
    const size_t colon = config_.http.listen.rfind(':');
    options.address = config_.http.listen.substr(0, colon);
    uint32_t port = 0;
    if (!absl::SimpleAtoi(config_.http.listen.substr(colon + 1), &port)) {
      return absl::InvalidArgumentError(StrCat("http.listen: no port in ", config_.http.listen));
    }
    options.port = static_cast<uint16_t>(port);
    options.max_body_bytes = config_.http.max_body_bytes;
    options.max_connections = static_cast<int>(config_.http.max_connections);
    OpenAiApiOptions api;
    api.api_key = config_.http.api_key;
    api.cors_origins = config_.http.cors_origins;
    api.ready = [this] { return health_.IsServing(""); };
    api.readiness = [this] { return readiness_->Report(); };
    api.metrics = [this] { return metrics_.Expose(); };
    const RequestContext now = RequestContext::Background();
    CAIRN_ASSIGN_OR_RETURN(auto inference, inference_channel_.Get(now));
    CAIRN_ASSIGN_OR_RETURN(auto agent, agent_channel_.Get(now));
    CAIRN_ASSIGN_OR_RETURN(
        http_, HttpServer::Start(options, MakeOpenAiApi(std::move(api), inference, agent)));
    http_address_ = StrCat(options.address, ":", http_->port());
    return absl::OkStatus();
  }

  void StartReadiness() {
    ReadinessOptions options;
    options.inference = config_.HasRole("inference");
    options.ingest = config_.HasRole("ingest");
    options.retrieval = config_.HasRole("retrieval");
    options.agent = config_.HasRole("agent");
    options.models = models_ ? &*models_ : nullptr;
    options.inference_channel = &inference_channel_;
    options.retrieval_channel = &retrieval_channel_;
    readiness_.emplace(options, &health_);
  }

  const ServerConfig config_;
  bool shut_down_ = false;
  // In the order of need: what is destroyed last stands first.
  std::unique_ptr<DirectoryLock> lock_;
  DrainList drain_;
  Metrics metrics_;
  HealthService health_;
  RoleChannel inference_channel_, ingest_channel_, retrieval_channel_, agent_channel_;
  InferenceClient inference_client_{&inference_channel_};
  EmbedderClient embedder_client_{&inference_client_};
  IngestEmbedderClient ingest_embedder_client_{&embedder_client_};
  RerankerClient reranker_client_{&inference_client_};
  RetrievalClient retrieval_client_{&retrieval_channel_};
  SinkClient sink_client_{&retrieval_client_};

  std::optional<ModelPool> models_;
  std::unique_ptr<retrieval::Index> index_;
  std::unique_ptr<agent::SessionStore> sessions_;
  std::unique_ptr<agent::RunStore> runs_;
  IngestorGate ingestor_;

  std::optional<Role> inference_, retrieval_, ingest_, agent_;
  std::optional<Executor> watchers_;
  std::unique_ptr<grpc::Service> inference_service_, retrieval_service_, ingest_service_,
      agent_service_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<HttpServer> http_;
  std::string http_address_;
  std::optional<Readiness> readiness_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CairnServer>> CairnServer::Start(const ServerConfig& config) {
  CAIRN_RETURN_IF_ERROR(CheckConfig(config));
  auto server = std::make_unique<Server>(config);
  CAIRN_RETURN_IF_ERROR(server->Start());
  return std::unique_ptr<CairnServer>(std::move(server));
}

}  // namespace cairn::services
