#include "services/agent/agent_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "cairn/agent/v1/agent_service.grpc.pb.h"
#include "common/strings.h"
#include "services/agent/convert.h"
#include "services/retrieval/convert.h"
#include "services/runtime/calls.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::agent::v1;

constexpr size_t kMaxIdBytes = 128;
constexpr int kMaxSessionTurns = 1000;
constexpr int kMaxRunsListed = 100'000;

absl::Status CheckId(const std::string& id, std::string_view field) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return InvalidField(field, StrCat("must be 1 to ", kMaxIdBytes, " bytes, got ", id.size()));
  }
  return absl::OkStatus();
}

// Without a generator nothing can be asked: said at once, not after a search that finds something.
absl::Status CheckGenerator(const RequestContext& context, ModelClient* model) {
  return model->ContextWindow(context).status();
}

absl::Status Ask(const AgentParts& parts, const RequestContext& context,
                 const proto::AskRequest& request, StreamWriter<proto::AskResponse>* out) {
  CAIRN_ASSIGN_OR_RETURN(const agent::AskRequest ask, ReadAskRequest(request));
  ModelClient model(parts.inference);
  CAIRN_RETURN_IF_ERROR(CheckGenerator(context, &model));
  ScorerClient scorer(parts.inference);
  RetrieverClient retriever(parts.retrieval, request.filter());
  const agent::AskPipeline pipeline(&model, &retriever, &scorer, parts.sessions, parts.ask);
  const auto on_event = [&](const agent::AskEvent& event) {
    proto::AskResponse response;
    if (const auto* sources = std::get_if<agent::SourcesEvent>(&event)) {
      WriteSources(sources->sources, response.mutable_sources());
    } else if (const auto* text = std::get_if<agent::TextDelta>(&event)) {
      response.mutable_text()->set_text(text->text);
    } else if (const auto* citation = std::get_if<agent::CitationEvent>(&event)) {
      WriteSentence(citation->sentence, response.mutable_sentence());
    } else if (const auto* final = std::get_if<agent::FinalEvent>(&event)) {
      WriteCompleted(final->result, response.mutable_completed());
      for (const std::string& stage : retriever.degraded()) {
        response.mutable_completed()->add_degraded(stage);
      }
    }
    return out->Write(std::move(response));
  };
  return pipeline.Ask(context, ask, on_event).status();
}

absl::Status Run(const AgentParts& parts, const RequestContext& context,
                 const proto::RunRequest& request, StreamWriter<proto::RunResponse>* out) {
  CAIRN_ASSIGN_OR_RETURN(const agent::RunRequest run, ReadRunRequest(request));
  ModelClient model(parts.inference);
  CAIRN_RETURN_IF_ERROR(CheckGenerator(context, &model));
  RetrieverClient retriever(parts.retrieval, {});
  CAIRN_ASSIGN_OR_RETURN(const auto loop, agent::AgentLoop::Create(&model, &retriever, parts.runs));
  bool started = false;
  RunStepWriter steps;
  const auto on_event = [&](std::string_view run_id, const agent::RunEvent& event) {
    if (!std::exchange(started, true)) {
      proto::RunResponse first;
      first.mutable_started()->set_run_id(std::string(run_id));
      if (!out->Write(std::move(first))) return false;
    }
    proto::RunResponse response;
    if (const auto* final = std::get_if<agent::RunFinal>(&event)) {
      WriteRunFinal(*final, response.mutable_completed());
    } else if (!steps.Write(event, response.mutable_step())) {
      return true;
    }
    return out->Write(std::move(response));
  };
  return loop->Run(context, run, on_event).status();
}

absl::Status GetSession(const AgentParts& parts, const RequestContext& context,
                        const proto::GetSessionRequest& request,
                        proto::GetSessionResponse* response) {
  CAIRN_RETURN_IF_ERROR(CheckId(request.session_id(), "session_id"));
  CAIRN_ASSIGN_OR_RETURN(const auto turns,
                         parts.sessions->History(context, request.session_id(), kMaxSessionTurns));
  for (const auto& turn : turns) WriteTurn(turn, response);
  return absl::OkStatus();
}

absl::Status ListRuns(const AgentParts& parts, const RequestContext& context,
                      const proto::ListRunsRequest& request, proto::ListRunsResponse* response) {
  CAIRN_ASSIGN_OR_RETURN(const int page_size, ReadPageSize(request.page_size()));
  int skip = 0;  // a token is the number of runs already seen
  if (!request.page_token().empty() &&
      (!absl::SimpleAtoi(request.page_token(), &skip) || skip < 0 || skip > kMaxRunsListed)) {
    return InvalidField("page_token", "is not one of ours");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto runs, parts.runs->List(context, skip + page_size + 1));
  const size_t end = std::min(runs.size(), static_cast<size_t>(skip + page_size));
  for (size_t i = skip; i < end; ++i) WriteRunSummary(runs[i], response->add_runs());
  if (runs.size() > end) response->set_next_page_token(StrCat(end));
  return absl::OkStatus();
}

absl::Status GetRun(const AgentParts& parts, const RequestContext& context,
                    const proto::GetRunRequest& request, proto::GetRunResponse* response) {
  CAIRN_RETURN_IF_ERROR(CheckId(request.run_id(), "run_id"));
  CAIRN_ASSIGN_OR_RETURN(const auto record, parts.runs->Get(context, request.run_id()));
  WriteRunSummary(record.info, response->mutable_summary());
  RunStepWriter steps;
  for (const agent::RunEvent& event : record.events) {
    proto::RunStep step;
    if (steps.Write(event, &step)) *response->add_steps() = std::move(step);
  }
  if (record.info.final.status != agent::RunStatus::kRunning) {
    WriteRunFinal(record.info.final, response->mutable_result());
  }
  return absl::OkStatus();
}

#define METHOD(name) "cairn.agent.v1.AgentService/" name

class Service final : public proto::AgentService::CallbackService {
 public:
  Service(const CallRuntime& runtime, const AgentParts& parts) : runtime_(runtime), parts_(parts) {}

 private:
  grpc::ServerWriteReactor<proto::AskResponse>* Ask(grpc::CallbackServerContext* context,
                                                    const proto::AskRequest* request) override {
    return ServeStream<proto::AskResponse>(
        runtime_, METHOD("Ask"), context,
        [this, request](const RequestContext& c, StreamWriter<proto::AskResponse>* out) {
          return services::Ask(parts_, c, *request, out);
        });
  }
  grpc::ServerWriteReactor<proto::RunResponse>* Run(grpc::CallbackServerContext* context,
                                                    const proto::RunRequest* request) override {
    return ServeStream<proto::RunResponse>(
        runtime_, METHOD("Run"), context,
        [this, request](const RequestContext& c, StreamWriter<proto::RunResponse>* out) {
          return services::Run(parts_, c, *request, out);
        });
  }
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context,
                                       const proto::GetSessionRequest* request,
                                       proto::GetSessionResponse* response) override {
    return ServeUnary(runtime_, METHOD("GetSession"), context, [=, this](const RequestContext& c) {
      return services::GetSession(parts_, c, *request, response);
    });
  }
  grpc::ServerUnaryReactor* ListRuns(grpc::CallbackServerContext* context,
                                     const proto::ListRunsRequest* request,
                                     proto::ListRunsResponse* response) override {
    return ServeUnary(runtime_, METHOD("ListRuns"), context, [=, this](const RequestContext& c) {
      return services::ListRuns(parts_, c, *request, response);
    });
  }
  grpc::ServerUnaryReactor* GetRun(grpc::CallbackServerContext* context,
                                   const proto::GetRunRequest* request,
                                   proto::GetRunResponse* response) override {
    return ServeUnary(runtime_, METHOD("GetRun"), context, [=, this](const RequestContext& c) {
      return services::GetRun(parts_, c, *request, response);
    });
  }

  const CallRuntime& runtime_;
  const AgentParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAgentService(const CallRuntime& runtime,
                                                const AgentParts& parts) {
  return std::make_unique<Service>(runtime, parts);
}

}  // namespace cairn::services
