// The engine on real models: what random weights cannot show. Integer products of quantised weights
// must not break the promise that company and chunking change nothing, and text has to make sense.
#include <algorithm>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/check.h"
#include "common/file.h"
#include "common/strings.h"
#include "engine/engine.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

const RequestContext kForever = RequestContext::Background();

std::string ModelPath(const std::string& name) {
  return StrCat(CairnHome(), "/models/", name, "/model.gguf");
}
const std::string& SmolLm() {
  static const std::string* path = new std::string(ModelPath("smollm2-135m"));
  return *path;
}

bool Missing(const std::string& path) { return !GgufFile::Open(path).ok(); }

std::unique_ptr<Engine> Load(const std::string& path, EngineOptions options) {
  options.num_threads = 2;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(path, options);
  CAIRN_CHECK(engine.ok());
  return *std::move(engine);
}

GenerateOptions Greedy(int max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  options.logprobs = true;
  return options;
}

std::vector<std::pair<TokenId, float>> TokensOf(const GenerateResult& result) {
  std::vector<std::pair<TokenId, float>> tokens;
  for (const TokenLogprob& logprob : result.logprobs)
    tokens.emplace_back(logprob.token, logprob.logprob);
  return tokens;
}

TEST(EngineModelTest, AnswersAChatMessage) {
  const std::string path = ModelPath("qwen2.5-coder-0.5b");
  if (Missing(path)) GTEST_SKIP() << path << " is missing";
  const std::unique_ptr<Engine> engine = Load(path, {.max_context = 512});
  const ChatMessage message{ChatRole::kUser, "What is the capital of France?", {}};
  const absl::StatusOr<std::vector<TokenId>> prompt =
      engine->chat_template().Render({&message, 1}, engine->tokenizer(), true);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  GenerateOptions options;
  options.max_tokens = 60;
  const absl::StatusOr<GenerateResult> result =
      engine->Generate(kForever, *prompt, options, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NE(result->text.find("Paris"), std::string::npos) << result->text;
  EXPECT_EQ(result->finish_reason, FinishReason::kStop);
}

// Requests start at random moments, so that each run mixes their prompts and their decoding in
// another way, over several sizes of chunks. Tokens and their log-probabilities have to be equal to
// the bit.
TEST(EngineModelTest, CompanyAndChunkingChangeNothing) {
  if (Missing(SmolLm())) GTEST_SKIP() << SmolLm() << " is missing";
  std::mt19937 rng(17);
  std::vector<std::vector<TokenId>> prompts;
  for (const int length : {1, 15, 16, 17, 60, 130}) {
    std::vector<TokenId> prompt(length);
    for (TokenId& token : prompt) token = static_cast<TokenId>(100 + rng() % 40000);
    prompts.push_back(prompt);
  }
  constexpr int kMaxTokens = 12;
  std::vector<std::vector<std::pair<TokenId, float>>> alone;
  {
    const std::unique_ptr<Engine> engine = Load(SmolLm(), {.max_context = 512});
    for (const std::vector<TokenId>& prompt : prompts) {
      const auto result = engine->Generate(kForever, prompt, Greedy(kMaxTokens), nullptr);
      ASSERT_TRUE(result.ok()) << result.status();
      alone.push_back(TokensOf(*result));
    }
  }
  for (const int budget : {5, 33, 512}) {
    const std::unique_ptr<Engine> engine =
        Load(SmolLm(), {.max_context = 256,
                        .max_running = 5,
                        .step_token_budget = budget,
                        .max_stall = absl::Milliseconds(1 + budget),
                        .kv_cache_tokens = 384});
    std::vector<std::future<absl::StatusOr<GenerateResult>>> results;
    for (const std::vector<TokenId>& prompt : prompts) {
      results.push_back(std::async(std::launch::async, [&engine, prompt] {
        return engine->Generate(kForever, prompt, Greedy(kMaxTokens), nullptr);
      }));
      absl::SleepFor(absl::Milliseconds(rng() % 30));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const absl::StatusOr<GenerateResult> result = results[i].get();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(TokensOf(*result), alone[i]) << "prompt " << i << ", budget " << budget;
    }
  }
}

TEST(EngineModelTest, ACancelledPromptIsNotComputedToItsEnd) {
  if (Missing(SmolLm())) GTEST_SKIP() << SmolLm() << " is missing";
  // The whole prompt is one step: only the check between layers can end it early.
  const std::unique_ptr<Engine> engine =
      Load(SmolLm(), {.max_context = 8192, .step_token_budget = 8000});
  const CancelSource source;
  std::future<absl::Status> status = std::async(std::launch::async, [&] {
    return engine
        ->Generate(RequestContext(source), std::vector<TokenId>(7000, 500), Greedy(1), nullptr)
        .status();
  });
  absl::SleepFor(absl::Milliseconds(200));  // long enough to be in it, far too short to end it
  source.Cancel();
  EXPECT_EQ(status.get().code(), absl::StatusCode::kCancelled);
  for (int i = 0; i < 60'000 && engine->stats().running > 0; ++i)
    absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(engine->stats().running, 0);
  EXPECT_EQ(engine->stats().queued, 0);
  EXPECT_EQ(engine->stats().steps, 0);
  EXPECT_EQ(engine->stats().kv_tokens_used, 0);
}

}  // namespace
}  // namespace cairn::engine
