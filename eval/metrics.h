// Ranking metrics by trec_eval's definitions (https://github.com/usnistgov/trec_eval).
//
// A run is sorted by score, largest first; equal scores (as 32-bit floats, which trec_eval keeps)
// by document id, largest first. Gains are linear: nDCG = sum of rel / log2(rank + 1) over that of
// the ideal order. Documents that no judgement names are not relevant. A query with judgements but
// no results scores 0 and counts in the means.
#ifndef CAIRN_EVAL_METRICS_H_
#define CAIRN_EVAL_METRICS_H_

#include <map>
#include <string>
#include <vector>

namespace cairn::eval {

using Judgements = std::map<std::string, int>;    // document id -> relevance
using Qrels = std::map<std::string, Judgements>;  // query id -> judgements
struct ScoredDocument {
  std::string document_id;
  double score = 0;
};
using Ranking = std::vector<ScoredDocument>;  // any order, each document once

struct Metrics {
  double ndcg_at_10 = 0;
  double recall_at_100 = 0;
  double mrr_at_10 = 0;
  double map = 0;
};

// In the order that trec_eval judges it.
Ranking SortedAsTrecEval(Ranking ranking);

Metrics Evaluate(const Judgements& judgements, const Ranking& ranking);
Metrics Mean(const std::vector<Metrics>& all);

}  // namespace cairn::eval

#endif  // CAIRN_EVAL_METRICS_H_
