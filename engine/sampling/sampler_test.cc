#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

std::vector<float> RandomLogits(int n, uint32_t seed, float scale = 2.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(rng);
  return logits;
}

// The definition: sorts everything, in double. `history` is prompt.
std::vector<double> ExactProbabilities(std::vector<float> logits, const SamplingParams& params,
                                       const std::vector<TokenId>& history) {
  for (const auto& [id, bias] : params.logit_bias) logits[id] += bias;
  if (params.repetition_penalty != 1.0f) {
    std::vector<bool> done(logits.size());
    for (const TokenId id : history) {
      if (done[id]) continue;
      done[id] = true;
      logits[id] = logits[id] > 0 ? logits[id] / params.repetition_penalty
                                  : logits[id] * params.repetition_penalty;
    }
  }
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && params.top_k < static_cast<int>(order.size())) order.resize(params.top_k);
  const double max_logit = logits[order[0]];
  std::vector<double> weight;
  for (const int id : order)
    weight.push_back(std::exp((logits[id] - max_logit) / params.temperature));
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  size_t kept = 0;
  for (double mass = 0; kept < order.size() && mass < params.top_p * total; ++kept)
    mass += weight[kept];
  while (kept > 1 && weight[kept - 1] < params.min_p) --kept;
  std::vector<double> p(logits.size(), 0.0);
  const double kept_mass = std::accumulate(weight.begin(), weight.begin() + kept, 0.0);
  for (size_t i = 0; i < kept; ++i) p[order[i]] = weight[i] / kept_mass;
  return p;
}

// Draws must avoid excluded tokens altogether and pass a chi-square test on the others. The bound
// is the mean of the statistic plus six standard deviations (mean = k, variance = 2k for k degrees
// of freedom).
void ExpectDistribution(const std::vector<float>& logits, const SamplingParams& base,
                        const std::vector<TokenId>& history) {
  const std::vector<double> p = ExactProbabilities(logits, base, history);
  constexpr int kDraws = 100'000;
  std::vector<int> count(logits.size(), 0);
  SamplingParams params = base;
  params.seed = 1234;
  std::optional<Sampler> sampler;
  sampler.emplace(params, history, static_cast<int>(logits.size()));
  for (int i = 0; i < kDraws; ++i) {
    if (params.repetition_penalty !=
        1.0f) {  // each draw changes the history: start from the same one
      params.seed = 1000 + i;
      sampler.emplace(params, history, static_cast<int>(logits.size()));
    }
    absl::StatusOr<TokenId> token = sampler->Sample(logits);
    ASSERT_TRUE(token.ok());
    ++count[*token];
  }
  double statistic = 0, rare_expected = 0, rare_observed = 0;
  int cells = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(count[i], 0) << "token " << i << " is excluded";
      continue;
    }
    const double expected = p[i] * kDraws;
    if (expected < 10) {  // pooled: the approximation needs some mass in each cell
      rare_expected += expected;
      rare_observed += count[i];
      continue;
    }
    statistic += (count[i] - expected) * (count[i] - expected) / expected;
    ++cells;
  }
  if (rare_expected >= 10) {
    statistic += (rare_observed - rare_expected) * (rare_observed - rare_expected) / rare_expected;
    ++cells;
  }
  const double k = std::max(cells - 1, 1);
  EXPECT_LT(statistic, k + 6 * std::sqrt(2 * k)) << "over " << cells << " cells";
}

TEST(SamplerTest, DrawsFollowTheExactDistribution) {
  const std::vector<float> logits = RandomLogits(60, 3);
  ExpectDistribution(logits, {.temperature = 1.0f}, {});
  ExpectDistribution(logits, {.temperature = 0.5f}, {});
  ExpectDistribution(logits, {.temperature = 3.0f}, {});
  ExpectDistribution(logits, {.temperature = 1.0f, .top_k = 1}, {});
  ExpectDistribution(logits, {.temperature = 1.5f, .top_k = 7}, {});
  ExpectDistribution(logits, {.temperature = 1.0f, .top_p = 0.8f}, {});
  ExpectDistribution(logits, {.temperature = 1.0f, .top_p = 1e-6f}, {});
  ExpectDistribution(logits, {.temperature = 1.0f, .min_p = 0.1f}, {});
  ExpectDistribution(logits, {.temperature = 2.0f, .top_k = 20, .top_p = 0.7f, .min_p = 0.05f}, {});
  ExpectDistribution(logits, {.temperature = 1.0f, .repetition_penalty = 1.8f}, {1, 5, 5, 9, 30});
}

TEST(SamplerTest, ATestOfTheTestAWrongTemperatureFails) {
  const std::vector<float> logits = RandomLogits(60, 3);
  const std::vector<double> right = ExactProbabilities(logits, {.temperature = 1.0f}, {});
  Sampler sampler({.temperature = 1.05f, .seed = 1}, {}, 60);
  std::vector<int> count(60, 0);
  for (int i = 0; i < 100'000; ++i) ++count[*sampler.Sample(logits)];
  double statistic = 0;
  for (int i = 0; i < 60; ++i) {
    statistic += std::pow(count[i] - right[i] * 1e5, 2) / std::max(right[i] * 1e5, 10.0);
  }
  EXPECT_GT(statistic, 59 + 6 * std::sqrt(2.0 * 59));
}

TEST(SamplerTest, RandomFiltersOnALargeVocabularyKeepTheRightTokens) {
  std::mt19937 rng(11);
  for (int round = 0; round < 40; ++round) {
    const std::vector<float> logits = RandomLogits(5000, 100 + round, 3.0f);
    SamplingParams params{.temperature = 0.3f + 0.1f * (rng() % 20),
                          .top_k = static_cast<int>(rng() % 2 * (rng() % 300)),
                          .top_p = rng() % 2 ? 1.0f : 0.01f * (1 + rng() % 99),
                          .min_p = rng() % 2 ? 0.0f : 0.001f * (rng() % 200),
                          .seed = rng()};
    const std::vector<double> p = ExactProbabilities(logits, params, {});
    Sampler sampler(params, {}, 5000);
    for (int i = 0; i < 200; ++i) {
      const TokenId token = *sampler.Sample(logits);
      ASSERT_GT(p[token], 0.0) << "round " << round;
    }
  }
}

TEST(SamplerTest, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  Sampler sampler({}, {}, 5);
  EXPECT_EQ(*sampler.Sample(std::vector<float>{1, 7, 3, 7, -1}), 1);
}

TEST(SamplerTest, PenaltyCountsWhatWasSampledBefore) {
  Sampler sampler({.repetition_penalty = 2.0f}, {}, 3);
  const std::vector<float> logits = {4.0f, 3.0f, -1.0f};
  EXPECT_EQ(*sampler.Sample(logits), 0);
  EXPECT_EQ(*sampler.Sample(logits), 1);  // 4 / 2 < 3
  EXPECT_EQ(*sampler.Sample(logits), 0);  // 2 against 1.5
}

TEST(SamplerTest, PresenceAndFrequencyCountTheOutputOnly) {
  const std::vector<float> logits = {4.0f, 3.5f, 3.2f};
  const std::vector<TokenId> prompt = {0, 0, 0};
  const auto draw = [&](const SamplingParams& params) {
    Sampler sampler(params, prompt, 3);
    std::vector<TokenId> tokens;
    for (int i = 0; i < 6; ++i) tokens.push_back(*sampler.Sample(logits));
    return tokens;
  };
  EXPECT_EQ(draw({}), (std::vector<TokenId>{0, 0, 0, 0, 0, 0}));
  // Once each, then as before: the penalty is the same for all.
  EXPECT_EQ(draw({.presence_penalty = 1.0f}), (std::vector<TokenId>{0, 1, 2, 0, 0, 0}));
  // 4, 3.5, 3.2 fall by 1 for each time: the largest is 0 (4), 1 (3.5), 2 (3.2), 0 (3), 1 (2.5) ...
  EXPECT_EQ(draw({.frequency_penalty = 1.0f}), (std::vector<TokenId>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(draw({.frequency_penalty = 0.3f}), (std::vector<TokenId>{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(draw({.presence_penalty = -1.0f}), (std::vector<TokenId>{0, 0, 0, 0, 0, 0}));
}

TEST(SamplerTest, BiasesMoveAndBanTokens) {
  const std::vector<float> logits = {4.0f, 3.5f, 3.2f};
  EXPECT_EQ(*Sampler({.logit_bias = {{0, -100.0f}}}, {}, 3).Sample(logits), 1);
  EXPECT_EQ(*Sampler({.logit_bias = {{0, -100.0f}, {2, 1.0f}}}, {}, 3).Sample(logits), 2);
  ExpectDistribution(RandomLogits(20, 8),
                     {.temperature = 1.0f, .logit_bias = {{3, 2.0f}, {5, -3.0f}}}, {});
}

TEST(SamplerTest, TheSameSeedRepeatsAndAnotherDiffers) {
  const std::vector<float> logits = RandomLogits(1000, 5, 1.0f);
  auto draw = [&logits](uint64_t seed) {
    Sampler sampler({.temperature = 1.0f, .top_p = 0.95f, .seed = seed}, {}, 1000);
    std::vector<TokenId> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(*sampler.Sample(logits));
    return tokens;
  };
  EXPECT_EQ(draw(42), draw(42));
  EXPECT_NE(draw(42), draw(43));
}

TEST(SamplerTest, NonsenseLogitsAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float bad : {nan, inf}) {
      for (int position = 0; position < 3; ++position) {
        std::vector<float> logits = {1, 2, 3};
        logits[position] = bad;
        Sampler sampler({.temperature = temperature}, {}, 3);
        EXPECT_EQ(sampler.Sample(logits).status().code(), absl::StatusCode::kInternal);
      }
    }
    Sampler sampler({.temperature = temperature}, {}, 2);
    EXPECT_FALSE(sampler.Sample(std::vector<float>{-inf, -inf}).ok());
  }
}

// The definition: most typical first, until the mass is reached.
std::set<TokenId> TypicalSet(const std::vector<float>& logits, float temperature, float typical_p) {
  std::vector<double> p;
  double sum = 0, entropy = 0;
  for (const float logit : logits) sum += p.emplace_back(std::exp(double{logit} / temperature));
  for (double& x : p) {
    x /= sum;
    entropy -= x * std::log(x);
  }
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](TokenId id) { return std::abs(-std::log(p[id]) - entropy); });
  std::set<TokenId> kept;
  double mass = 0;
  for (size_t i = 0; i < order.size() && mass < typical_p; ++i) {
    kept.insert(order[i]);
    mass += p[order[i]];
  }
  return kept;
}

TEST(SamplerTest, TypicalPKeepsTheTypical) {
  std::mt19937 rng(11);
  std::normal_distribution<float> normal(0, 2);
  for (int round = 0; round < 30; ++round) {
    std::vector<float> logits(12);
    for (float& logit : logits) logit = normal(rng);
    const float typical_p = 0.2f + 0.02f * static_cast<float>(round);
    const std::set<TokenId> expected = TypicalSet(logits, 1.3f, typical_p);
    Sampler sampler({.temperature = 1.3f, .typical_p = typical_p, .seed = 1}, {}, 12);
    std::set<TokenId> drawn;
    for (int i = 0; i < 3000; ++i) drawn.insert(*sampler.Sample(logits));
    for (const TokenId id : drawn) EXPECT_TRUE(expected.contains(id)) << "round " << round;
    EXPECT_TRUE(drawn.contains(
        *std::ranges::max_element(expected, {}, [&](TokenId id) { return logits[id]; })));
  }
}

// Random texts of few words, so that they repeat; the definition compares every pair of places.
TEST(SamplerTest, DryPenalisesWhatWouldRepeat) {
  std::mt19937 rng(12);
  int num_changed = 0;
  for (int round = 0; round < 300; ++round) {
    const int vocab = 4 + static_cast<int>(rng() % 3);
    std::vector<TokenId> text(1 + rng() % 60);
    for (TokenId& token : text) token = static_cast<TokenId>(rng() % vocab);
    std::vector<bool> breakers(vocab, false);
    breakers[0] = round % 2 == 0;
    SamplingParams params;
    params.dry_multiplier = 3.0f;
    params.dry_base = 1.5f;
    params.dry_allowed_length = 1 + static_cast<int>(rng() % 3);
    params.dry_range = round % 3 == 0 ? 10 : 0;
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = static_cast<float>(rng() % 1000) / 100;

    const int begin =
        params.dry_range == 0 ? 0 : std::max<int>(0, static_cast<int>(text.size()) - 10);
    const int end = static_cast<int>(text.size());
    std::vector<float> expected = logits;
    for (TokenId next = 0; next < vocab; ++next) {
      int longest = 0;
      for (int i = begin; i + 1 < end; ++i) {
        if (text[i + 1] != next) continue;
        int n = 0;
        while (i - n >= begin && text[i - n] == text[end - 1 - n] && !breakers[text[i - n]]) ++n;
        longest = std::max(longest, n);
      }
      if (longest >= params.dry_allowed_length) {
        expected[next] -=
            3.0f * std::pow(1.5f, static_cast<float>(longest - params.dry_allowed_length));
      }
    }
    Sampler sampler(params, text, vocab, &breakers);
    const TokenId best =
        static_cast<TokenId>(std::ranges::max_element(expected) - expected.begin());
    EXPECT_NEAR(expected[*sampler.Sample(logits)], expected[best], 1e-4) << "round " << round;
    num_changed += best != std::ranges::max_element(logits) - logits.begin() ? 1 : 0;
  }
  EXPECT_GT(num_changed, 20);
}

TEST(SamplerTest, ForbiddenAndBannedTokensDoNotComeAndAllowedOnesDo) {
  const std::vector<float> logits = {5, 4, 3, 2, 1};
  EXPECT_EQ(*Sampler({.banned_tokens = {0}}, {}, 5).Sample(logits), 1);
  EXPECT_EQ(*Sampler({.allowed_tokens = {3, 4}}, {}, 5).Sample(logits), 3);
  EXPECT_EQ(*Sampler({.banned_tokens = {0}}, {}, 5).Sample(logits, std::vector<TokenId>{1}), 2);
  EXPECT_EQ(Sampler({.allowed_tokens = {3}}, {}, 5)
                .Sample(logits, std::vector<TokenId>{3})
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SamplerTest, ParametersOutOfRangeAreNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<SamplingParams, std::string>> cases = {
      {{.temperature = -0.1f}, "temperature"},
      {{.temperature = 10.1f}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.top_k = -1}, "top_k"},
      {{.top_p = 0.0f}, "top_p"},
      {{.top_p = 1.01f}, "top_p"},
      {{.top_p = nan}, "top_p"},
      {{.min_p = -0.1f}, "min_p"},
      {{.min_p = 1.0f}, "min_p"},
      {{.min_p = nan}, "min_p"},
      {{.repetition_penalty = 0.0f}, "repetition_penalty"},
      {{.repetition_penalty = 11.0f}, "repetition_penalty"},
      {{.repetition_penalty = nan}, "repetition_penalty"},
      {{.presence_penalty = 2.1f}, "presence_penalty"},
      {{.presence_penalty = nan}, "presence_penalty"},
      {{.frequency_penalty = -2.1f}, "frequency_penalty"},
      {{.frequency_penalty = nan}, "frequency_penalty"},
      {{.typical_p = 0.0f}, "typical_p"},
      {{.typical_p = nan}, "typical_p"},
      {{.dry_multiplier = -1.0f}, "dry_multiplier"},
      {{.dry_multiplier = nan}, "dry_multiplier"},
      {{.dry_base = 0.9f}, "dry_base"},
      {{.dry_allowed_length = 0}, "dry_allowed_length"},
      {{.dry_range = -1}, "dry_range"},
      {{.allowed_tokens = std::vector<TokenId>(kMaxListedTokens + 1)}, "allowed_tokens"},
      {{.banned_tokens = std::vector<TokenId>(kMaxListedTokens + 1)}, "banned_tokens"},
      {{.logit_bias = {{0, 101.0f}}}, "logit_bias"},
      {{.logit_bias = {{0, nan}}}, "logit_bias"},
      {{.logit_bias = std::vector<std::pair<TokenId, float>>(kMaxLogitBiases + 1)}, "logit_bias"},
  };
  for (const auto& [params, field] : cases) {
    const absl::Status status = ValidateSamplingParams(params);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), "sampling." + field);
  }
  EXPECT_TRUE(ValidateSamplingParams({}).ok());
}

TEST(ComputeLogprobTest, MatchesTheDefinitionAndSumsToOne) {
  const std::vector<float> logits = RandomLogits(300, 8);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const TokenLogprob all = ComputeLogprob(logits, 17, 300);
  EXPECT_NEAR(all.logprob, logits[17] - std::log(sum), 1e-5);
  ASSERT_EQ(all.top.size(), 300u);
  double mass = 0;
  for (size_t i = 0; i < all.top.size(); ++i) {
    mass += std::exp(static_cast<double>(all.top[i].second));
    if (i > 0) {
      EXPECT_GE(all.top[i - 1].second, all.top[i].second);
    }
  }
  EXPECT_NEAR(mass, 1.0, 1e-5);
  const TokenLogprob five = ComputeLogprob(logits, 17, 5);
  ASSERT_EQ(five.top.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(five.top[i], all.top[i]);
}

TEST(ComputeLogprobTest, EqualLogitsComeInOrderOfId) {
  const TokenLogprob logprob = ComputeLogprob(std::vector<float>{2, 5, 5, 5, 1}, 4, 3);
  ASSERT_EQ(logprob.top.size(), 3u);
  EXPECT_EQ(logprob.top[0].first, 1);
  EXPECT_EQ(logprob.top[1].first, 2);
  EXPECT_EQ(logprob.top[2].first, 3);
}

}  // namespace
}  // namespace cairn::engine
