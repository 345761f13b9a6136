// Rewriting turns a follow-up ("and in Chinese?") into a question that can be searched for without
// its conversation.
//
// A question that refers to nothing is used as it is, without a model call. The model's rewriting
// is believed only when it is one short question in the same language whose names and numbers all
// come from the conversation; otherwise the earlier question is put in front of this one.
#ifndef CAIRN_AGENT_ASK_REWRITE_H_
#define CAIRN_AGENT_ASK_REWRITE_H_

#include <string>
#include <string_view>
#include <vector>

#include "agent/ask/answer.h"
#include "agent/ports.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

// Whether the question leans on what was said before: pronouns, "what about", or too few words of
// its own.
bool RefersBack(std::string_view question);

// `history` oldest first, user and assistant messages. Adds to `*usage`. Errors are those of the
// model.
absl::StatusOr<std::string> StandaloneQuestion(const RequestContext& context, Model* model,
                                               const std::vector<Message>& history,
                                               std::string_view question, AskUsage* usage);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_REWRITE_H_
