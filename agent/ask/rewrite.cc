#include "agent/ask/rewrite.h"

#include <algorithm>
#include <initializer_list>

#include "agent/ask/features.h"
#include "agent/ask/prompt.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

constexpr int kMaxRewriteTokens = 96;
constexpr size_t kMaxRewriteBytes = 400;
constexpr size_t kMaxAnswerBytes = 600;  // of an earlier answer, as the rewriter sees it

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n\"");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n\"") - begin + 1);
}

std::string_view LastQuestion(const std::vector<Message>& history) {
  for (auto it = history.rbegin(); it != history.rend(); ++it) {
    if (it->role == Message::Role::kUser) return it->content;
  }
  return {};
}

bool Believable(std::string_view rewritten, std::string_view question,
                const std::vector<Message>& history) {
  if (rewritten.empty() || rewritten.size() > kMaxRewriteBytes) return false;
  if (rewritten.find('\n') != std::string_view::npos ||
      LanguageOf(rewritten) != LanguageOf(question))
    return false;
  std::string conversation(question);
  for (const Message& message : history) StrAppend(&conversation, "\n", message.content);
  const Features known = ExtractFeatures(conversation);
  const Features asked = ExtractFeatures(question);
  const Features features = ExtractFeatures(rewritten);
  const auto is_known_name = [&](const NameFeature& name) { return known.HasName(name); };
  const auto is_known_number = [&](const NumberFeature& number) { return known.HasNumber(number); };
  if (!std::all_of(features.names.begin(), features.names.end(), is_known_name)) return false;
  if (!std::all_of(features.numbers.begin(), features.numbers.end(), is_known_number)) return false;
  // It must still ask what was asked: at least half of the question's own terms.
  const auto kept = std::count_if(asked.terms.begin(), asked.terms.end(),
                                  [&](const std::string& term) { return features.HasTerm(term); });
  return 2 * static_cast<size_t>(kept) >= asked.terms.size();
}

}  // namespace

bool RefersBack(std::string_view question) {
  const Features features = ExtractFeatures(question);
  for (const std::string_view word :
       {"it", "its", "they", "them", "their", "this", "that", "these", "those", "he", "she",
        "there", "one", "ones", "former", "latter"}) {
    if (features.words.count(std::string(word)) != 0) return true;
  }
  for (const std::string_view word :
       {"它", "他", "她", "这", "那", "此", "其", "上述", "前者", "后者", "呢"}) {
    if (question.find(word) != std::string_view::npos) return true;
  }
  return QuestionTerms(question).size() < 2 && features.names.empty();
}

absl::StatusOr<std::string> StandaloneQuestion(const RequestContext& context, Model* model,
                                               const std::vector<Message>& history,
                                               std::string_view question, AskUsage* usage) {
  const std::string_view previous = LastQuestion(history);
  if (previous.empty() || !RefersBack(question)) return std::string(question);
  std::vector<Message> turns = history;
  for (Message& turn : turns) {
    if (turn.content.size() > kMaxAnswerBytes)
      turn.content.resize(Utf8Floor(turn.content, kMaxAnswerBytes));
  }
  ModelRequest request;
  request.messages = RewritePrompt(LanguageOf(question), turns, question);
  request.max_tokens = kMaxRewriteTokens;
  CAIRN_ASSIGN_OR_RETURN(const ModelReply reply,
                         model->Generate(context, request, [](std::string_view) { return true; }));
  usage->prompt_tokens += reply.prompt_tokens;
  usage->completion_tokens += reply.completion_tokens;
  ++usage->model_calls;
  const std::string_view rewritten = Trim(reply.text);
  if (!reply.truncated && Believable(rewritten, question, history)) return std::string(rewritten);
  return StrCat(previous, " ", question);
}

}  // namespace cairn::agent
