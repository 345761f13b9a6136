// The words that the pipeline says: to the generator, and to the user when it abstains. English and
// Chinese, chosen by the language of the question.
#ifndef CAIRN_AGENT_ASK_PROMPT_H_
#define CAIRN_AGENT_ASK_PROMPT_H_

#include <string>
#include <string_view>
#include <vector>

#include "agent/ports.h"

namespace cairn::agent {

// System text, one worked example as a turn of its own, and the question behind its sources
// (rendered, may be empty).
std::vector<Message> AnswerPrompt(std::string_view language, std::string_view sources,
                                  std::string_view question);

// Asks for the last question in a form that needs no conversation. `turns`: earlier questions and
// answers, oldest first.
std::vector<Message> RewritePrompt(std::string_view language, const std::vector<Message>& turns,
                                   std::string_view question);

// What the user reads instead of an answer.
std::string_view AbstentionText(std::string_view language);

// Whether a sentence of the generator says that the sources do not hold the answer.
bool IsRefusal(std::string_view sentence);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_PROMPT_H_
