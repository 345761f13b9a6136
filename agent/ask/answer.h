// The plain data of an answer: sources, sentences, citations. Shared by the pipeline, the session
// store and whoever carries answers to a client.
//
// Units: spans of a Citation or Source are bytes of the original document; ranges of an
// AnswerSentence are bytes of the final answer text (UTF-8).
#ifndef CAIRN_AGENT_ASK_ANSWER_H_
#define CAIRN_AGENT_ASK_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace cairn::agent {

// One numbered source as the model read it: one passage, or neighbouring passages of one document
// merged.
struct Source {
  int number = 0;  // 1-based; used for display and Citation::source only, never as an identity
  std::string document_id;
  uint64_t version = 0;
  std::string title;
  std::vector<std::string> heading_path;
  uint64_t span_begin = 0, span_end = 0;
  std::vector<std::string> chunk_ids;  // in document order, at least one
  std::string language;
  double score = 0;  // best score among its chunks, 0..1
};

// A retrieved passage that the model did not read.
struct LeftOut {
  Source source;       // number 0
  std::string reason;  // "DUPLICATE" | "TOKEN_BUDGET"
};

// A sentence, list item, table row or code line of a source that supports a sentence of the answer.
struct Citation {
  int source = 0;  // Source::number
  std::string chunk_id;
  std::string document_id;
  uint64_t version = 0;
  uint64_t span_begin = 0, span_end = 0;
  std::string quote;  // exactly the original bytes of [span_begin, span_end), in the document's own
                      // encoding
  std::string text;   // the same as UTF-8 text
  double score = 0;   // strength of the match, 0..1
};

// Why a sentence is not supported, or what weakens it.
struct SupportIssue {
  // "NO_MATCHING_SOURCE", "NUMBER_NOT_IN_SOURCE", "NAME_NOT_IN_SOURCE", "NEGATION_DIFFERS",
  // "SOURCES_MIXED", "ROLES_SWAPPED"
  std::string reason;
  std::string detail;  // the number or name at fault, or empty
};

struct AnswerSentence {
  int index = 0;                // position among the sentences of the final answer
  uint64_t begin = 0, end = 0;  // bytes of the answer
  bool supported = false;
  std::vector<Citation> citations;  // best first; empty when nothing matched
  std::vector<SupportIssue> issues;
};

struct AskUsage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int model_calls = 0;
};

struct StageTiming {
  std::string stage;  // "rewrite", "retrieve", "gate", "pack", "generate", "attribute"
  absl::Duration duration;
};

struct AskResult {
  std::string answer;
  std::vector<AnswerSentence> sentences;
  std::vector<Source> sources;
  std::vector<LeftOut> left_out;
  std::string standalone_question;  // what was searched for
  std::string language;             // "en" or "zh": the language of the question
  bool abstained = false;
  // "NO_RELEVANT_SOURCE" (before generation) or "NO_SUPPORT" (after it); empty otherwise.
  std::string abstain_reason;
  std::string abstain_detail;  // what was missing, for people: "websocket is in no source"
  bool truncated = false;      // the model stopped at max_tokens
  int removed_sentences = 0;   // unsupported and removed under the strict policy
  int unknown_markers = 0;     // [n] in the model's text that name no source
  AskUsage usage;
  std::vector<std::string> degraded;  // stages that could not run: "similarity: <error>"
  std::vector<StageTiming> timings;   // in order; "attribute" overlaps "generate"
  std::string session_id;             // empty when no session is kept
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_ANSWER_H_
