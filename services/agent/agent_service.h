// The agent role: cairn.agent.v1 over the answer pipeline, the agent loop and their stores.
#ifndef CAIRN_SERVICES_AGENT_AGENT_SERVICE_H_
#define CAIRN_SERVICES_AGENT_AGENT_SERVICE_H_

#include <memory>

#include "agent/ask/ask.h"
#include "agent/run/agent_loop.h"
#include "agent/run/run_store.h"
#include "agent/session/session_store.h"
#include "grpcpp/impl/service_type.h"
#include "services/clients/inference_client.h"
#include "services/clients/retrieval_client.h"
#include "services/runtime/call_scope.h"

namespace cairn::services {

// What the role works with; all outlive the service.
struct AgentParts {
  InferenceClient* inference = nullptr;
  RetrievalClient* retrieval = nullptr;
  agent::SessionStore* sessions = nullptr;
  agent::RunStore* runs = nullptr;
  agent::AskOptions ask;
};

std::unique_ptr<grpc::Service> MakeAgentService(const CallRuntime& runtime,
                                                const AgentParts& parts);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_AGENT_AGENT_SERVICE_H_
