// Next-token log-probabilities against llama.cpp, recorded by tests/scripts/record_logprobs.py.
//
// Two comparisons, since both engines round activations to eight bits before a product with
// quantised weights, and not in the same way:
//
//   - exact: the same weights turned into F32, where neither engine rounds anything but keys and
//     values (to half). Here the whole computation has to agree to a few thousandths.
//   - quantised: the file as it is. What may differ is bounded by what the rounding does to
//   llama.cpp
//     itself: for a likely token its recordings lie up to 0.3 off its own exact ones with SmolLM2.
//     Judged are the divergence KL(llama.cpp || ours), the largest difference for a likely token,
//     and, where exact values were recorded, our distance from them beside llama.cpp's.
//
// A wrong constant (rotary base, epsilon, a bias, a swapped head) moves these by whole units.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/strings.h"
#include "engine/engine.h"
#include "engine/gguf/gguf.h"
#include "engine/testing/float_copy.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cairn::engine {
namespace {

using Json = nlohmann::json;
using Logprobs = std::map<TokenId, double>;

constexpr double kLikely = 0.02;  // tokens below are noise that no sampler would miss

std::string ModelPath(const std::string& name) {
  return StrCat(CairnHome(), "/models/", name, "/model.gguf");
}

Json Recorded(const std::string& name) {
  const absl::StatusOr<std::string> text =
      ReadFile(StrCat(CAIRN_SOURCE_DIR, "/tests/data/logprobs/", name, ".json"));
  return text.ok() ? Json::parse(*text).at("prompts") : Json::array();
}

Logprobs FromJson(const Json& pairs) {
  Logprobs logprobs;
  for (const Json& pair : pairs) logprobs[pair.at(0)] = pair.at(1);
  return logprobs;
}

absl::StatusOr<Logprobs> NextToken(Engine& engine, const Json& tokens) {
  GenerateOptions options;
  options.max_tokens = 1;
  options.top_logprobs = 20;
  options.ignore_eos = true;
  CAIRN_ASSIGN_OR_RETURN(const GenerateResult result,
                         engine.Generate(RequestContext::Background(),
                                         tokens.get<std::vector<TokenId>>(), options, nullptr));
  Logprobs logprobs;
  for (const auto& [token, logprob] : result.logprobs.at(0).top) logprobs[token] = logprob;
  return logprobs;
}

// A token that `other` does not list among its best 20 is at most as likely as the last of them.
double Value(const Logprobs& other, TokenId token) {
  const auto it = other.find(token);
  if (it != other.end()) return it->second;
  double lowest = 0;
  for (const auto& [unused, logprob] : other) lowest = std::min(lowest, logprob);
  return lowest;
}

// KL(reference || other) over the reference's likely tokens and all the rest as one outcome.
double Divergence(const Logprobs& reference, const Logprobs& other) {
  double sum = 0, rest = 1, other_rest = 1;
  for (const auto& [token, logprob] : reference) {
    if (logprob < std::log(kLikely)) continue;
    const double value = Value(other, token);
    sum += std::exp(logprob) * (logprob - value);
    rest -= std::exp(logprob);
    other_rest -= std::exp(value);
  }
  constexpr double kTiny = 1e-6;  // recordings have five decimals
  return rest > kTiny ? sum + rest * std::log(rest / std::max(other_rest, kTiny)) : sum;
}

double LargestDifference(const Logprobs& reference, const Logprobs& other) {
  double largest = 0;
  for (const auto& [token, logprob] : reference) {
    if (logprob >= std::log(kLikely)) {
      largest = std::max(largest, std::abs(Value(other, token) - logprob));
    }
  }
  return largest;
}

struct Tolerance {
  std::string model;
  double mean_kl;
  double max_kl;
  double max_difference;
};

void PrintTo(const Tolerance& tolerance, std::ostream* os) { *os << tolerance.model; }

class QuantisedTest : public ::testing::TestWithParam<Tolerance> {};

TEST_P(QuantisedTest, AgreesWithLlamaCpp) {
  const Tolerance& tolerance = GetParam();
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Load(ModelPath(tolerance.model), {.max_context = 4096});
  if (engine.status().code() == absl::StatusCode::kNotFound) {
    GTEST_SKIP() << ModelPath(tolerance.model) << " is missing";
  }
  ASSERT_TRUE(engine.ok()) << engine.status();
  const Json prompts = Recorded(tolerance.model);
  ASSERT_GE(prompts.size(), 20u);

  double kl_sum = 0, kl_max = 0, difference_max = 0, exact_ours = 0, exact_llama = 0;
  for (const Json& prompt : prompts) {
    const std::string id = prompt.at("id");
    const absl::StatusOr<Logprobs> ours = NextToken(**engine, prompt.at("tokens"));
    ASSERT_TRUE(ours.ok()) << id << ": " << ours.status();
    const Logprobs llama = FromJson(prompt.at("top"));
    const double kl = Divergence(llama, *ours);
    const double difference = LargestDifference(llama, *ours);
    kl_sum += kl;
    kl_max = std::max(kl_max, kl);
    difference_max = std::max(difference_max, difference);
    std::printf("%-16s KL %7.5f, largest difference %6.4f", id.c_str(), kl, difference);
    if (prompt.contains("exact")) {
      const Logprobs exact = FromJson(prompt["exact"]);
      exact_ours += LargestDifference(exact, *ours);
      exact_llama += LargestDifference(exact, llama);
      std::printf("; from exact: ours %6.4f, llama.cpp %6.4f", LargestDifference(exact, *ours),
                  LargestDifference(exact, llama));
    }
    std::printf("\n");
  }
  const double n = static_cast<double>(prompts.size());
  std::printf("%s: mean KL %.5f, worst KL %.5f, largest difference %.4f", tolerance.model.c_str(),
              kl_sum / n, kl_max, difference_max);
  std::printf("; mean distance from exact: ours %.4f, llama.cpp %.4f\n", exact_ours / n,
              exact_llama / n);
  EXPECT_LE(kl_sum / n, tolerance.mean_kl);
  EXPECT_LE(kl_max, tolerance.max_kl);
  EXPECT_LE(difference_max, tolerance.max_difference);
  // Two roundings of the same size: over 25 prompts the means of their errors differ by chance.
  EXPECT_LE(exact_ours, 1.5 * exact_llama);
}

class ExactTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ExactTest, AgreesWithLlamaCpp) {
  const std::string path = ModelPath(GetParam());
  if (!GgufFile::Open(path).ok()) GTEST_SKIP() << path << " is missing";
  const std::string copy = ::testing::TempDir() + "/cairn_float_copy.gguf";
  ASSERT_TRUE(testing::WriteFloatCopy(path, copy).ok());
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(copy, {.max_context = 4096});
  std::remove(copy.c_str());  // the mapping keeps the bytes
  ASSERT_TRUE(engine.ok()) << engine.status();

  double difference_max = 0;
  int compared = 0;
  for (const Json& prompt : Recorded(GetParam())) {
    ASSERT_TRUE(prompt.contains("exact")) << prompt.at("id");
    if (prompt.at("tokens").size() > 100) continue;  // F32 is slow; QuantisedTest has the long ones
    const absl::StatusOr<Logprobs> ours = NextToken(**engine, prompt.at("tokens"));
    ASSERT_TRUE(ours.ok()) << ours.status();
    const double difference = LargestDifference(FromJson(prompt["exact"]), *ours);
    difference_max = std::max(difference_max, difference);
    ++compared;
  }
  std::printf("%s in F32: largest difference %.5f over %d prompts\n", GetParam().c_str(),
              difference_max, compared);
  EXPECT_GE(compared, 20);
  // Rounding of keys and values to half, and sums in another order: 0.008 was measured.
  EXPECT_LE(difference_max, 0.02);
}

#ifdef CAIRN_REFERENCE_OF_LARGE_MODELS
INSTANTIATE_TEST_SUITE_P(Large, QuantisedTest,
                         ::testing::Values(Tolerance{"qwen2.5-coder-1.5b", 0.003, 0.02, 0.5}));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExactTest);
#else
INSTANTIATE_TEST_SUITE_P(Small, QuantisedTest,
                         ::testing::Values(Tolerance{"smollm2-135m", 0.006, 0.04, 0.8},
                                           Tolerance{"qwen2.5-coder-0.5b", 0.003, 0.02, 0.5},
                                           Tolerance{"gemma-3-270m", 0.025, 0.2, 3}));
INSTANTIATE_TEST_SUITE_P(Small, ExactTest, ::testing::Values("smollm2-135m", "gemma-3-270m"));
#endif

}  // namespace
}  // namespace cairn::engine
