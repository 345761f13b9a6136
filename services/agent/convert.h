// cairn.agent.v1 <-> the agent's plain structs. Reading checks every field against the limits of
// the contract.
#ifndef CAIRN_SERVICES_AGENT_CONVERT_H_
#define CAIRN_SERVICES_AGENT_CONVERT_H_

#include <vector>

#include "agent/ask/ask.h"
#include "agent/run/run_store.h"
#include "agent/run/run_types.h"
#include "agent/session/session_store.h"
#include "cairn/agent/v1/agent_service.pb.h"
#include "common/status.h"

namespace cairn::services {

// Everything but the filter, which the retriever applies (clients/retrieval_client.h).
absl::StatusOr<agent::AskRequest> ReadAskRequest(const agent::v1::AskRequest& request);
absl::StatusOr<agent::RunRequest> ReadRunRequest(const agent::v1::RunRequest& request);

void WriteSources(const std::vector<agent::Source>& sources, agent::v1::AskSources* out);
void WriteSentence(const agent::AnswerSentence& sentence, agent::v1::AskSentence* out);
void WriteCompleted(const agent::AskResult& result, agent::v1::AskCompleted* out);
void WriteTurn(const agent::SessionTurn& turn, agent::v1::GetSessionResponse* out);

// Numbers the events of one run that are steps in the contract, from 0.
class RunStepWriter {
 public:
  // False when the event is no step (a start or an end).
  bool Write(const agent::RunEvent& event, agent::v1::RunStep* out);

 private:
  int next_index_ = 0;
};
void WriteRunFinal(const agent::RunFinal& final, agent::v1::RunCompleted* out);
void WriteRunSummary(const agent::RunInfo& info, agent::v1::RunSummary* out);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_AGENT_CONVERT_H_
