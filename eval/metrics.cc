#include "eval/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace cairn::eval {
namespace {

double Discounted(int relevance, size_t rank) {
  return relevance > 0 ? relevance / std::log2(static_cast<double>(rank) + 1) : 0;
}

}  // namespace

Ranking SortedAsTrecEval(Ranking ranking) {
  std::sort(ranking.begin(), ranking.end(), [](const ScoredDocument& a, const ScoredDocument& b) {
    const float x = static_cast<float>(a.score), y = static_cast<float>(b.score);
    return x != y ? x > y : a.document_id > b.document_id;
  });
  return ranking;
}

Metrics Evaluate(const Judgements& judgements, const Ranking& ranking) {
  std::vector<int> ideal;
  for (const auto& [id, relevance] : judgements) {
    if (relevance > 0) ideal.push_back(relevance);
  }
  Metrics metrics;
  if (ideal.empty()) return metrics;
  std::sort(ideal.begin(), ideal.end(), std::greater<>());
  const double num_relevant = static_cast<double>(ideal.size());

  double dcg = 0, ideal_dcg = 0, precision_sum = 0;
  size_t rank = 0, found = 0;
  for (const ScoredDocument& document : SortedAsTrecEval(ranking)) {
    ++rank;
    const auto judged = judgements.find(document.document_id);
    const int relevance = judged == judgements.end() ? 0 : judged->second;
    if (rank <= 10) dcg += Discounted(relevance, rank);
    if (relevance <= 0) continue;
    ++found;
    precision_sum += static_cast<double>(found) / static_cast<double>(rank);
    if (rank <= 100) metrics.recall_at_100 += 1 / num_relevant;
    if (found == 1 && rank <= 10) metrics.mrr_at_10 = 1 / static_cast<double>(rank);
  }
  for (size_t i = 0; i < std::min<size_t>(10, ideal.size()); ++i)
    ideal_dcg += Discounted(ideal[i], i + 1);
  metrics.ndcg_at_10 = dcg / ideal_dcg;
  metrics.map = precision_sum / num_relevant;
  return metrics;
}

Metrics Mean(const std::vector<Metrics>& all) {
  Metrics mean;
  for (const Metrics& m : all) {
    mean.ndcg_at_10 += m.ndcg_at_10;
    mean.recall_at_100 += m.recall_at_100;
    mean.mrr_at_10 += m.mrr_at_10;
    mean.map += m.map;
  }
  const double n = all.empty() ? 1 : static_cast<double>(all.size());
  mean.ndcg_at_10 /= n;
  mean.recall_at_100 /= n;
  mean.mrr_at_10 /= n;
  mean.map /= n;
  return mean;
}

}  // namespace cairn::eval
