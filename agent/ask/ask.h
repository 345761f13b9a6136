// AskPipeline answers a question from a collection, with citations that point at exact bytes of the
// sources.
//
// Stages: rewrite (only with history) -> retrieve -> gate -> pack -> generate -> attribute. The
// gate abstains without calling the generator when the evidence says that nothing relevant was
// found.
//
// Events: SourcesEvent once, before the first text (not sent when the gate abstains); then
// TextDelta and CitationEvent in the order of the answer; FinalEvent last, and only on success. The
// concatenated deltas are equal to FinalEvent::result.answer, and its sentences are those of the
// CitationEvents.
//
// Streaming rule: text is sent sentence by sentence, after the sentence was checked against the
// sources. Nothing is sent until a first sentence is supported (and, when the question asks for a
// number, a time or a person, holds one); sentences before it wait. If none ever is, the pipeline
// abstains, and the only text sent is the abstention. After that an unsupported sentence is sent
// flagged, or, under the strict policy, not sent.
//
// Sessions: the history of `session_id` is read and the turn appended, atomically, before
// FinalEvent. A session belongs to the principal and tenant of the context; another's is NOT_FOUND.
//
// Threads: thread-safe; the ports and the store must outlive the pipeline.
// Errors: INVALID_ARGUMENT (field named), NOT_FOUND (session, collection), CANCELLED when on_event
// returned false or the context was cancelled, DEADLINE_EXCEEDED, and whatever a port returned,
// annotated with the stage.
#ifndef CAIRN_AGENT_ASK_ASK_H_
#define CAIRN_AGENT_ASK_ASK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "agent/ask/answer.h"
#include "agent/ports.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

class SessionStore;

struct AskOptions {
  // Behaviour.
  int default_top_k = 8;
  int max_top_k = 64;
  int default_max_tokens = 512;
  int max_max_tokens = 4096;
  int max_question_bytes = 8192;
  int history_turns = 4;         // turns of the session that the rewriter reads
  int max_source_tokens = 1200;  // sources in the prompt; more costs time to the first token
  int max_citations_per_sentence = 3;
  // Performance.
  int max_similarity_candidates = 24;  // source sentences embedded per answer sentence
};

struct AskRequest {
  std::string collection;
  std::string question;
  std::string session_id;    // an existing session, or empty
  bool new_session = false;  // starts one; its id is in the result. Not together with session_id
  // Earlier turns, oldest first, for callers that keep their own history; not together with a
  // session.
  std::vector<Message> history;
  int top_k = 0;  // 0 = default
  std::map<std::string, std::string> equals;
  bool strict = false;  // remove unsupported sentences instead of flagging them
  int max_tokens = 0;   // 0 = default
  float temperature = 0;
  uint64_t seed = 0;
};

struct SourcesEvent {
  std::vector<Source> sources;
};
struct TextDelta {
  std::string text;
};
struct CitationEvent {
  AnswerSentence sentence;  // its text is already sent
};
struct FinalEvent {
  AskResult result;
};
using AskEvent = std::variant<SourcesEvent, TextDelta, CitationEvent, FinalEvent>;
// Called on the calling thread or on a thread of the Model port, never twice at once. False stops
// the work.
using AskEventCallback = std::function<bool(const AskEvent&)>;

class AskPipeline {
 public:
  // `scorer` may be null: attribution is then lexical only. `sessions` may be null: requests that
  // name or start a session are then FAILED_PRECONDITION.
  AskPipeline(Model* model, Retriever* retriever, SupportScorer* scorer, SessionStore* sessions,
              AskOptions options = {});

  absl::StatusOr<AskResult> Ask(const RequestContext& context, const AskRequest& request,
                                const AskEventCallback& on_event) const;

 private:
  Model* model_;
  Retriever* retriever_;
  SupportScorer* scorer_;
  SessionStore* sessions_;
  AskOptions options_;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_ASK_H_
