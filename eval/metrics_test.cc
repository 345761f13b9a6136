#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace cairn::eval {
namespace {

// Values of trec_eval itself, recorded by tests/scripts/record_trec_eval.py: ties, graded and
// negative judgements, queries without results.
TEST(MetricsTest, EqualTrecEval) {
  std::ifstream file(CAIRN_SOURCE_DIR "/tests/data/trec_eval/cases.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 50u);
  for (const auto& c : cases) {
    Ranking ranking;
    for (const auto& [id, score] : c["run"].items()) ranking.push_back({id, score.get<double>()});
    const Metrics m = Evaluate(c["qrels"].get<Judgements>(), ranking);
    EXPECT_NEAR(m.ndcg_at_10, c["ndcg_cut_10"].get<double>(), 5e-5);
    EXPECT_NEAR(m.recall_at_100, c["recall_100"].get<double>(), 5e-5);
    EXPECT_NEAR(m.map, c["map"].get<double>(), 5e-5);
    EXPECT_NEAR(m.mrr_at_10, c["mrr_10"].get<double>(), 5e-5);
  }
}

TEST(MetricsTest, MeanCountsQueriesWithoutResults) {
  const Judgements judgements = {{"a", 1}};
  const Metrics mean = Mean({Evaluate(judgements, {{"a", 1.0}}), Evaluate(judgements, {})});
  EXPECT_DOUBLE_EQ(mean.ndcg_at_10, 0.5);
  EXPECT_DOUBLE_EQ(mean.map, 0.5);
}

}  // namespace
}  // namespace cairn::eval
