// Relevance decides, before anything is generated, whether the passages found can bear on the
// question at all; and, after generation, whether a supported sentence answers the kind of question
// that was asked.
//
// Evidence: names and numbers of the question that no passage holds; the share of its content terms
// that the best passage and all passages together hold; the best cosine (multilingual-e5 puts
// unrelated texts at 0.75-0.84); the rerank logit when there is one. The bars were chosen on the
// bRPC manual; see docs/answer-quality.md.
#ifndef CAIRN_AGENT_ASK_RELEVANCE_H_
#define CAIRN_AGENT_ASK_RELEVANCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "agent/ask/features.h"
#include "agent/ports.h"

namespace cairn::agent {

struct RelevanceOptions {
  double min_best_coverage = 0.34;  // by one passage
  double min_total_coverage = 0.5;  // by all passages together
  double sure_cosine = 0.90;        // a passage this close is relevant whatever words it uses
  double sure_rerank_logit = 4.0;
};

struct Relevance {
  bool relevant = false;
  std::string detail;  // why not, for people
  double best_coverage = 0, total_coverage = 0, best_cosine = 0;
};

Relevance AssessRelevance(std::string_view question, const std::vector<Passage>& passages,
                          const RelevanceOptions& options = {});

// Whether `sentence` holds a fact of the kind asked for, beyond what the question says itself.
bool HoldsAnswerKind(AnswerKind kind, const Features& question, const Features& sentence);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_RELEVANCE_H_
