// The engine over a model of a few thousand random weights: what callers are promised, in every
// state that a request can be in. The same promises on real models are in engine_model_test.cc.
#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/utf8.h"
#include "engine/testing/tiny_model.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

using testing::ReferenceLogits;
using testing::TinyModel;
using testing::TinyModelOptions;

// So long that no machine gets to its end before a deadline of less than a second.
constexpr int kContext = 65536;

const TinyModel& Model() {
  static const TinyModel* model = new TinyModel({.context_length = kContext});
  return *model;
}

std::unique_ptr<Engine> Load(EngineOptions options = {}) {
  static const std::string path = Model().WriteTemp("engine");
  if (options.num_threads == 0) options.num_threads = 2;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(path, options);
  CAIRN_CHECK(engine.ok());
  return *std::move(engine);
}

std::vector<TokenId> RandomPrompt(int n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> prompt(n);
  for (TokenId& token : prompt) token = static_cast<TokenId>(rng() % 256);
  return prompt;
}

GenerateOptions Greedy(int max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  options.logprobs = true;  // so that tests see tokens
  return options;
}

std::vector<TokenId> TokensOf(const GenerateResult& result) {
  std::vector<TokenId> tokens;
  for (const TokenLogprob& logprob : result.logprobs) tokens.push_back(logprob.token);
  return tokens;
}

const RequestContext kForever = RequestContext::Background();

// Waits, for at most ten seconds, until `condition` holds.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

void ExpectIdle(const Engine& engine) {
  EXPECT_TRUE(Eventually([&] {
    const EngineStats stats = engine.stats();
    return stats.running == 0 && stats.queued == 0 && stats.kv_tokens_used == 0;
  }));
  EXPECT_EQ(engine.stats().kv_inconsistencies, 0);
}

TEST(EngineTest, GreedyTokensAndLogprobsFollowTheDefinition) {
  const std::unique_ptr<Engine> engine = Load();
  std::vector<TokenId> tokens = RandomPrompt(10, 1);
  GenerateOptions options = Greedy(20);
  options.top_logprobs = 5;
  const absl::StatusOr<GenerateResult> result =
      engine->Generate(kForever, tokens, options, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->prompt_tokens, 10);
  EXPECT_EQ(result->completion_tokens, 20);
  EXPECT_EQ(result->finish_reason, FinishReason::kLength);
  ASSERT_EQ(result->logprobs.size(), 20u);
  for (const TokenLogprob& got : result->logprobs) {
    const std::vector<double> logits = ReferenceLogits(Model(), tokens).back();
    const double max = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - max);
    EXPECT_NEAR(logits[got.token], max, 1e-2);
    EXPECT_NEAR(got.logprob, logits[got.token] - max - std::log(sum), 2e-2);
    ASSERT_EQ(got.top.size(), 5u);
    EXPECT_EQ(got.top[0].first, got.token);
    for (const auto& [token, logprob] : got.top) {
      EXPECT_NEAR(logprob, logits[token] - max - std::log(sum), 2e-2);
    }
    tokens.push_back(got.token);
  }
  EXPECT_EQ(result->text, SanitizeUtf8(engine->tokenizer().Decode(TokensOf(*result))));
  ExpectIdle(*engine);
}

TEST(EngineTest, StreamedTextIsTheWholeTextInWholeCharacters) {
  const std::unique_ptr<Engine> engine = Load();
  GenerateOptions options = Greedy(200);
  options.sampling = {.temperature = 1.5f, .seed = 3};
  std::string streamed;
  const absl::StatusOr<GenerateResult> result =
      engine->Generate(kForever, RandomPrompt(5, 2), options, [&](std::string_view delta) {
        EXPECT_TRUE(IsValidUtf8(delta));
        EXPECT_FALSE(delta.empty());
        streamed += delta;
        return true;
      });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(streamed, result->text);
  EXPECT_FALSE(streamed.empty());
}

TEST(EngineTest, EndTokenStopsUnlessIgnored) {
  // With a nearly flat distribution one token in 264 is the end: far fewer than 4000.
  const std::unique_ptr<Engine> engine = Load();
  GenerateOptions options = Greedy(4000);
  options.sampling = {.temperature = 10.0f, .seed = 1};
  options.ignore_eos = false;
  const absl::StatusOr<GenerateResult> result =
      engine->Generate(kForever, RandomPrompt(5, 3), options, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish_reason, FinishReason::kStop);
  EXPECT_LT(result->completion_tokens, 4000);
  const std::vector<TokenId> tokens = TokensOf(*result);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), TinyModel::kEnd), 0);

  options.max_tokens = result->completion_tokens + 1;
  options.ignore_eos = true;
  const absl::StatusOr<GenerateResult> ignored =
      engine->Generate(kForever, RandomPrompt(5, 3), options, nullptr);
  ASSERT_TRUE(ignored.ok());
  EXPECT_EQ(ignored->finish_reason, FinishReason::kLength);
  EXPECT_EQ(TokensOf(*ignored).back(), TinyModel::kEnd);
}

TEST(EngineTest, AStopStringEndsTheTextWhereverTheTokensAreCut) {
  const std::unique_ptr<Engine> engine = Load();
  GenerateOptions options = Greedy(300);
  options.sampling = {.temperature = 1.0f, .seed = 5};
  const absl::StatusOr<GenerateResult> whole =
      engine->Generate(kForever, RandomPrompt(5, 4), options, nullptr);
  ASSERT_TRUE(whole.ok());
  int tested = 0;
  for (size_t at = 20; at + 40 < whole->text.size(); at += 23) {
    const size_t begin = Utf8Floor(whole->text, at);
    const size_t end = Utf8Floor(whole->text, at + 12);
    if (begin == end) continue;
    options.stop = {"never seen in this text", whole->text.substr(begin, end - begin)};
    std::string streamed;
    const absl::StatusOr<GenerateResult> result =
        engine->Generate(kForever, RandomPrompt(5, 4), options, [&](std::string_view delta) {
          streamed += delta;
          return true;
        });
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->finish_reason, FinishReason::kStop);
    EXPECT_EQ(result->text, whole->text.substr(0, whole->text.find(options.stop[1])));
    EXPECT_EQ(streamed, result->text);
    ++tested;
  }
  EXPECT_GT(tested, 5);
  ExpectIdle(*engine);
}

TEST(EngineTest, BadRequestsNameTheField) {
  const std::unique_ptr<Engine> engine = Load();
  const auto status_of = [&](const std::vector<TokenId>& prompt,
                             const std::function<void(GenerateOptions&)>& edit) {
    GenerateOptions options;
    edit(options);
    return engine->Generate(kForever, prompt, options, nullptr).status();
  };
  const std::vector<TokenId> prompt = {1, 2, 3};
  const std::vector<std::pair<absl::Status, std::string>> cases = {
      {status_of({}, [](auto&) {}), "prompt"},
      {status_of({-1}, [](auto&) {}), "prompt"},
      {status_of({TinyModel::kVocabSize}, [](auto&) {}), "prompt"},
      {status_of(prompt, [](auto& o) { o.max_tokens = 0; }), "max_tokens"},
      {status_of(prompt, [](auto& o) { o.max_tokens = -5; }), "max_tokens"},
      {status_of(prompt, [](auto& o) { o.sampling.temperature = -1; }), "sampling.temperature"},
      {status_of(prompt, [](auto& o) { o.sampling.top_p = 0; }), "sampling.top_p"},
      {status_of(prompt, [](auto& o) { o.top_logprobs = -1; }), "top_logprobs"},
      {status_of(prompt, [](auto& o) { o.top_logprobs = 21; }), "top_logprobs"},
      {status_of(prompt, [](auto& o) { o.stop = {""}; }), "stop"},
      {status_of(prompt, [](auto& o) { o.stop = {std::string(257, 'x')}; }), "stop"},
      {status_of(prompt, [](auto& o) { o.stop = {"\xff"}; }), "stop"},
      {status_of(prompt, [](auto& o) { o.stop.assign(17, "x"); }), "stop"},
      {status_of(prompt, [](auto& o) { o.stop_tokens = {-1}; }), "stop_tokens"},
      {status_of(prompt, [](auto& o) { o.stop_tokens.assign(65, 1); }), "stop_tokens"},
      {status_of(prompt, [](auto& o) { o.n = 0; }), "n"},
      {status_of(prompt, [](auto& o) { o.n = 1 << 30; }), "n"},
      {status_of(prompt, [](auto& o) { o.min_tokens = -1; }), "min_tokens"},
      {status_of(prompt, [](auto& o) { o.min_tokens = o.max_tokens + 1; }), "min_tokens"},
      {status_of(prompt, [](auto& o) { o.priority = 101; }), "priority"},
      {status_of(prompt, [](auto& o) { o.sampling.typical_p = 0; }), "sampling.typical_p"},
      {status_of(prompt, [](auto& o) { o.sampling.dry_base = 0.5f; }), "sampling.dry_base"},
      {status_of(prompt, [](auto& o) { o.sampling.dry_multiplier = -1; }),
       "sampling.dry_multiplier"},
      {status_of(prompt, [](auto& o) { o.sampling.allowed_tokens = {1 << 20}; }),
       "sampling.allowed_tokens"},
      {status_of(prompt, [](auto& o) { o.sampling.banned_tokens = {-1}; }),
       "sampling.banned_tokens"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].first.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(FieldOf(cases[i].first), cases[i].second) << i << ": " << cases[i].first;
  }
  ExpectIdle(*engine);
}

TEST(EngineTest, BadOptionsNameTheField) {
  const std::string path = Model().WriteTemp("options");
  const std::vector<std::pair<EngineOptions, std::string>> cases = {
      {{.max_context = 0}, "max_context"},
      {{.max_queue = 0}, "max_queue"},
      {{.max_running = 0}, "max_running"},
      {{.step_token_budget = 4}, "step_token_budget"},
      {{.kv_cache_tokens = -1}, "kv_cache_tokens"},
      {{.kv_cache_tokens = 100}, "kv_cache_tokens"},
      {{.num_threads = -1}, "num_threads"},
      {{.queue_policy = "?"}, "queue_policy"},
      {{.max_stall = absl::ZeroDuration()}, "max_stall"},
  };
  for (const auto& [options, field] : cases) {
    EXPECT_EQ(FieldOf(Engine::Load(path, options).status()), field);
  }
  EXPECT_EQ(Engine::Load("/nonexistent/model.gguf", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(EngineTest, AFileThatAsksForTooMuchMemoryIsRefused) {
  // A few MiB of weights, but rows of a quarter of a million floats in a step of 4096 tokens.
  const TinyModel wide({.num_layers = 1,
                        .embedding_dim = 8,
                        .num_heads = 1,
                        .num_kv_heads = 1,
                        .feed_forward_dim = 1 << 18});
  const absl::Status status =
      Engine::Load(wide.WriteTemp("wide"), {.step_token_budget = 4096}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(EngineTest, ARequestThatDoesNotFitIsRefusedWithNumbers) {
  const std::unique_ptr<Engine> engine = Load({.max_context = 100});
  EXPECT_EQ(engine->max_context(), 100);
  const absl::Status status =
      engine->Generate(kForever, RandomPrompt(60, 1), Greedy(41), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "CONTEXT_OVERFLOW");
  for (const char* number : {"60", "41", "101", "100"}) {
    EXPECT_NE(status.message().find(number), std::string::npos) << status;
  }
  EXPECT_TRUE(engine->Generate(kForever, RandomPrompt(60, 1), Greedy(40), nullptr).ok());
  GenerateOptions huge = Greedy(2'147'483'647);
  EXPECT_EQ(ReasonOf(engine->Generate(kForever, RandomPrompt(60, 1), huge, nullptr).status()),
            "CONTEXT_OVERFLOW");
}

// A request whose reader is stuck in its callback, until released.
class StuckReader {
 public:
  explicit StuckReader(Engine* engine, int max_tokens = 1000)
      : result_(std::async(std::launch::async, [this, engine, max_tokens] {
          return engine->Generate(kForever, RandomPrompt(5, 1), Greedy(max_tokens),
                                  [this](std::string_view) {
                                    if (!reached_.HasBeenNotified()) reached_.Notify();
                                    release_.WaitForNotification();
                                    return true;
                                  });
        })) {
    reached_.WaitForNotification();
  }
  absl::StatusOr<GenerateResult> Release() {
    release_.Notify();
    return result_.get();
  }

 private:
  absl::Notification reached_, release_;
  std::future<absl::StatusOr<GenerateResult>> result_;
};

TEST(EngineTest, AReaderThatIsStuckHoldsUpNobodyElse) {
  const std::unique_ptr<Engine> engine = Load();
  StuckReader stuck(engine.get());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(engine->Generate(kForever, RandomPrompt(20, i), Greedy(200), nullptr).ok());
  }
  EXPECT_TRUE(Eventually([&] { return engine->stats().running == 1; }));
  const absl::StatusOr<GenerateResult> result = stuck.Release();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->completion_tokens, 1000);
  ExpectIdle(*engine);
}

TEST(EngineTest, AFullQueueSaysWhenToComeBack) {
  const std::unique_ptr<Engine> engine = Load({.max_queue = 2, .max_running = 1});
  StuckReader stuck(engine.get());
  std::vector<std::future<absl::StatusOr<GenerateResult>>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(std::async(std::launch::async, [&engine, i] {
      return engine->Generate(kForever, RandomPrompt(5, i), Greedy(3), nullptr);
    }));
    ASSERT_TRUE(Eventually([&] { return engine->stats().queued == i + 1; }));
  }
  const absl::Status status =
      engine->Generate(kForever, RandomPrompt(5, 9), Greedy(3), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  ASSERT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_GT(*RetryAfterOf(status), absl::ZeroDuration());
  EXPECT_TRUE(stuck.Release().ok());
  for (auto& future : waiting) EXPECT_TRUE(future.get().ok());
  ExpectIdle(*engine);
}

// A cancel or a deadline, by state; `elsewhere` streams meanwhile and must not notice.
class EndingTest : public ::testing::TestWithParam<bool> {
 protected:
  // Runs a request that ends by cancel or by deadline once `reached` holds, and returns its status.
  absl::Status EndOnce(Engine& engine, const std::vector<TokenId>& prompt, int max_tokens,
                       const std::function<bool()>& reached,
                       const TextCallback& on_text = nullptr) {
    const CancelSource source;
    const bool by_deadline = GetParam();
    // Deadlines cannot wait for a state; they lie far enough ahead that the state is reached first.
    const RequestContext context(
        source, by_deadline ? absl::Now() + absl::Milliseconds(700) : absl::InfiniteFuture());
    std::future<absl::Status> status = std::async(std::launch::async, [&] {
      return engine.Generate(context, prompt, Greedy(max_tokens), on_text).status();
    });
    EXPECT_TRUE(Eventually(reached));
    if (!by_deadline) source.Cancel();
    return status.get();
  }
  absl::StatusCode code() const {
    return GetParam() ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled;
  }
};

TEST_P(EndingTest, WhileQueued) {
  const std::unique_ptr<Engine> engine = Load({.max_running = 1});
  StuckReader stuck(engine.get(), 100);
  const absl::Status status =
      EndOnce(*engine, RandomPrompt(5, 2), 10, [&] { return engine->stats().queued == 1; });
  EXPECT_EQ(status.code(), code());
  EXPECT_TRUE(Eventually([&] { return engine->stats().queued == 0; }));
  const absl::StatusOr<GenerateResult> other = stuck.Release();
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->completion_tokens, 100);
  ExpectIdle(*engine);
}

TEST_P(EndingTest, InTheMiddleOfAPrompt) {
  const std::unique_ptr<Engine> engine =
      Load({.max_context = kContext, .max_running = 1, .step_token_budget = 1});
  const absl::Status status = EndOnce(*engine, RandomPrompt(kContext - 100, 2), 10,
                                      [&] { return engine->stats().prompt_tokens > 0; });
  EXPECT_EQ(status.code(), code());
  ExpectIdle(*engine);
  EXPECT_LT(engine->stats().prompt_tokens, kContext - 100);
  EXPECT_EQ(engine->stats().completion_tokens, 0);
}

TEST_P(EndingTest, WhileDecoding) {
  const std::unique_ptr<Engine> engine = Load({.max_context = kContext});
  const absl::StatusOr<GenerateResult> alone =
      engine->Generate(kForever, RandomPrompt(30, 7), Greedy(1500), nullptr);
  ASSERT_TRUE(alone.ok());
  std::future<absl::StatusOr<GenerateResult>> elsewhere = std::async(std::launch::async, [&] {
    return engine->Generate(kForever, RandomPrompt(30, 7), Greedy(1500), nullptr);
  });
  std::atomic<int> deltas = 0;
  const absl::Status status = EndOnce(
      *engine, RandomPrompt(5, 2), kContext - 100, [&] { return deltas > 5; },
      [&](std::string_view) { return ++deltas > 0; });
  EXPECT_EQ(status.code(), code());
  const absl::StatusOr<GenerateResult> other = elsewhere.get();
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(TokensOf(*other), TokensOf(*alone));
  ExpectIdle(*engine);
}

TEST_P(EndingTest, WhileTheReaderIsStuck) {
  const std::unique_ptr<Engine> engine = Load();
  std::atomic<bool> stuck = false;
  const absl::Status status = EndOnce(
      *engine, RandomPrompt(5, 2), 1000, [&] { return stuck.load(); },
      [&](std::string_view) {
        stuck = true;
        // The engine gives the request up although its reader has not come back.
        EXPECT_TRUE(Eventually([&] { return engine->stats().running == 0; }));
        return true;
      });
  EXPECT_EQ(status.code(), code());
  ExpectIdle(*engine);
}

INSTANTIATE_TEST_SUITE_P(ByCancelAndByDeadline, EndingTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Deadline" : "Cancel"; });

TEST(EngineTest, ACallThatIsTooLateDoesNothing) {
  const std::unique_ptr<Engine> engine = Load();
  const CancelSource source;
  source.Cancel();
  EXPECT_EQ(engine->Generate(RequestContext(source), {1}, Greedy(5), nullptr).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(engine->Generate(kForever.WithTimeout(-absl::Seconds(1)), {1}, Greedy(5), nullptr)
                .status()
                .code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine->stats().steps, 0);
}

TEST(EngineTest, ACallbackThatHasEnoughEndsTheRequest) {
  const std::unique_ptr<Engine> engine = Load();
  int calls = 0;
  const absl::StatusOr<GenerateResult> result = engine->Generate(
      kForever, RandomPrompt(5, 2), Greedy(2000), [&](std::string_view) { return ++calls < 10; });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(calls, 10);
  EXPECT_LT(result->completion_tokens, 2000);
  ExpectIdle(*engine);
}

TEST(EngineTest, TheDestructorEndsWhatRunsAndWhatWaits) {
  std::unique_ptr<Engine> engine = Load({.max_running = 2});
  std::vector<std::future<absl::Status>> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(std::async(std::launch::async, [&engine, i] {
      return engine->Generate(kForever, RandomPrompt(5, i), Greedy(8000), nullptr).status();
    }));
  }
  ASSERT_TRUE(
      Eventually([&] { return engine->stats().running == 2 && engine->stats().queued == 3; }));
  engine.reset();
  for (auto& call : calls) EXPECT_EQ(call.get().code(), absl::StatusCode::kCancelled);
}

TEST(EngineTest, SeedsRepeatAndDrawnSeedsDiffer) {
  const std::unique_ptr<Engine> engine = Load();
  const auto draw = [&](uint64_t seed) {
    GenerateOptions options = Greedy(30);
    options.sampling = {.temperature = 2.0f, .seed = seed};
    return TokensOf(*engine->Generate(kForever, RandomPrompt(5, 1), options, nullptr));
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
  EXPECT_NE(draw(0), draw(0));
}

// A conversation, then a second one that begins like it, then a tenant who may not share: tokens
// are the same as without a cache, and what is not computed again is counted.
TEST(EngineTest, APrefixHitChangesNothing) {
  EngineOptions off;
  off.prefix_cache = false;
  const std::unique_ptr<Engine> with = Load(), without = Load(off);
  std::vector<TokenId> prompt = RandomPrompt(50, 20);
  int64_t cached = 0;
  for (int turn = 0; turn < 6; ++turn) {
    const absl::StatusOr<GenerateResult> a = with->Generate(kForever, prompt, Greedy(20), nullptr);
    const absl::StatusOr<GenerateResult> b =
        without->Generate(kForever, prompt, Greedy(20), nullptr);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(TokensOf(*a), TokensOf(*b)) << "turn " << turn;
    EXPECT_EQ(b->cached_tokens, 0);
    // What the last turn computed (not its last token), in whole blocks; after the cut, the start.
    const int before = turn == 0 ? 0 : turn == 3 ? 70 : static_cast<int>(prompt.size()) - 8;
    EXPECT_EQ(a->cached_tokens, before / 16 * 16) << "turn " << turn;
    cached += a->cached_tokens;
    if (turn == 2) prompt.resize(70);  // the first turn's tokens, and another end
    const std::vector<TokenId> answer = TokensOf(*a), more = RandomPrompt(7, 21 + turn);
    if (turn != 2) prompt.insert(prompt.end(), answer.begin(), answer.end());
    prompt.insert(prompt.end(), more.begin(), more.end());
  }
  EXPECT_EQ(with->stats().cached_prompt_tokens, cached);
  EXPECT_GT(with->stats().kv_tokens_cached, 0);
  const RequestContext stranger(CancelSource(), absl::InfiniteFuture(), {.tenant = "other"});
  const absl::StatusOr<GenerateResult> other = with->Generate(stranger, prompt, Greedy(5), nullptr);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->cached_tokens, 0);
  ExpectIdle(*with);
}

// Requests of all kinds come and go on several threads, in small blocks of steps; whatever the
// mixture, each that was not cancelled gives the tokens that it gives alone.
TEST(EngineTest, CompanyChangesNothing) {
  struct Kind {
    std::vector<TokenId> prompt;
    GenerateOptions options;
    std::vector<TokenId> alone;
  };
  std::vector<Kind> kinds;
  {
    EngineOptions alone;
    alone.prefix_cache = false;
    const std::unique_ptr<Engine> engine = Load(alone);
    for (int i = 0; i < 8; ++i) {
      Kind kind{RandomPrompt(1 + i * 37, i), Greedy(10 + i * 9), {}};
      if (i % 2 == 1)
        kind.options.sampling = {.temperature = 0.9f, .top_p = 0.9f, .seed = 100u + i};
      kind.alone = TokensOf(*engine->Generate(kForever, kind.prompt, kind.options, nullptr));
      // Some without guesses: they would repeat the little that this model has to say.
      kind.options.prompt_lookup = i % 3 != 0;
      kinds.push_back(kind);
    }
  }
  const std::unique_ptr<Engine> engine = Load({.max_context = 512,
                                               .max_running = 4,
                                               .step_token_budget = 24,
                                               .max_stall = absl::Milliseconds(1),
                                               .kv_cache_tokens = 512});
  std::vector<std::thread> clients;
  std::atomic<int> finished = 0;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 rng(c);
      for (int i = 0; i < 25; ++i) {
        const Kind& kind = kinds[rng() % kinds.size()];
        const int enough = rng() % 4 == 0 ? 1 + static_cast<int>(rng() % 10) : 1 << 30;
        int calls = 0;
        const absl::StatusOr<GenerateResult> result =
            engine->Generate(kForever, kind.prompt, kind.options,
                             [&](std::string_view) { return ++calls < enough; });
        ASSERT_TRUE(result.ok()) << result.status();
        std::vector<TokenId> expected = kind.alone;
        if (result->finish_reason == FinishReason::kCancelled) {
          expected.resize(result->completion_tokens);
        } else {
          ++finished;
        }
        ASSERT_EQ(TokensOf(*result), expected);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(finished, 75);
  EXPECT_GT(engine->stats().accepted_draft_tokens, 100);
  ExpectIdle(*engine);
}

// A cache that cannot hold them all: some are thrown out and computed again, and say the same.
TEST(EngineTest, PreemptionChangesNothing) {
  const std::unique_ptr<Engine> large = Load();
  const std::unique_ptr<Engine> engine =
      Load({.max_context = 400, .max_running = 8, .kv_cache_tokens = 480});
  std::vector<std::future<absl::StatusOr<GenerateResult>>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(std::async(std::launch::async, [&engine, i] {
      GenerateOptions options = Greedy(300);
      options.prompt_logprobs = i % 2 == 0;
      return engine->Generate(kForever, RandomPrompt(20 + i, 50 + i), options, nullptr);
    }));
  }
  for (int i = 0; i < 8; ++i) {
    GenerateOptions options = Greedy(300);
    options.prompt_lookup = false;
    const absl::StatusOr<GenerateResult> alone =
        large->Generate(kForever, RandomPrompt(20 + i, 50 + i), options, nullptr);
    const absl::StatusOr<GenerateResult> result = calls[i].get();
    ASSERT_TRUE(alone.ok() && result.ok()) << result.status();
    EXPECT_EQ(TokensOf(*result), TokensOf(*alone)) << i;
    EXPECT_EQ(result->prompt_logprobs.size(), i % 2 == 0 ? 19u + i : 0u);
  }
  EXPECT_GT(engine->stats().preemptions, 0);
  ExpectIdle(*engine);
}

TEST(EngineTest, ChoicesAreWhatTheirSeedsGiveAlone) {
  const std::unique_ptr<Engine> engine = Load({.max_running = 5});
  GenerateOptions options = Greedy(40);
  options.sampling = {.temperature = 1.2f, .seed = 70};
  options.n = 5;
  const std::vector<TokenId> prompt = RandomPrompt(41, 6);
  std::vector<std::string> streamed(5);
  const absl::StatusOr<std::vector<GenerateResult>> results =
      engine->GenerateMany(kForever, prompt, options, [&](int choice, std::string_view delta) {
        streamed[choice] += delta;
        return choice != 3 || streamed[3].size() < 10;  // one of them ends early
      });
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 5u);
  EXPECT_EQ(engine->stats().prompt_tokens, 41);  // computed once
  for (int i = 0; i < 5; ++i) {
    const GenerateResult& result = (*results)[i];
    GenerateOptions alone = options;
    alone.n = 1;
    alone.sampling.seed = 70 + i;
    std::vector<TokenId> expected = TokensOf(*engine->Generate(kForever, prompt, alone, nullptr));
    if (i == 3) {
      EXPECT_EQ(result.finish_reason, FinishReason::kCancelled);
      expected.resize(result.completion_tokens);
    } else {
      EXPECT_EQ(result.completion_tokens, 40);
    }
    EXPECT_EQ(TokensOf(result), expected) << i;
    EXPECT_EQ(streamed[i], result.text);
    EXPECT_EQ(result.prompt_tokens, 41);
  }
  options.n = 6;
  EXPECT_EQ(FieldOf(engine->GenerateMany(kForever, prompt, options, nullptr).status()), "n");
  ExpectIdle(*engine);
}

TEST(EngineTest, PromptLogprobsFollowTheDefinitionAlsoAfterAPrefixHit) {
  const std::unique_ptr<Engine> engine = Load();
  const std::vector<TokenId> prompt = RandomPrompt(70, 8);
  const std::vector<std::vector<double>> logits = ReferenceLogits(Model(), prompt);
  GenerateOptions options = Greedy(3);
  options.prompt_logprobs = true;
  options.top_logprobs = 2;
  for (int round = 0; round < 2; ++round) {
    const absl::StatusOr<GenerateResult> result =
        engine->Generate(kForever, prompt, options, nullptr);
    ASSERT_TRUE(result.ok());
    ASSERT_EQ(result->prompt_logprobs.size(), 69u);
    for (int i = 0; i < 69; ++i) {
      const TokenLogprob& got = result->prompt_logprobs[i];
      double sum = 0;
      for (const double logit : logits[i]) sum += std::exp(logit);
      EXPECT_EQ(got.token, prompt[i + 1]);
      EXPECT_NEAR(got.logprob, logits[i][prompt[i + 1]] - std::log(sum), 2e-2);
      EXPECT_EQ(got.top.size(), 2u);
    }
  }
}

TEST(EngineTest, StopTokensMinTokensEchoAndIncludedStops) {
  const std::unique_ptr<Engine> engine = Load();
  const std::vector<TokenId> prompt = RandomPrompt(12, 30);
  const GenerateResult plain = *engine->Generate(kForever, prompt, Greedy(60), nullptr);
  const std::vector<TokenId> tokens = TokensOf(plain);

  GenerateOptions stopped = Greedy(60);
  stopped.stop_tokens = {tokens[20]};
  const size_t first = std::ranges::find(tokens, tokens[20]) - tokens.begin();
  GenerateResult result = *engine->Generate(kForever, prompt, stopped, nullptr);
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(TokensOf(result), std::vector(tokens.begin(), tokens.begin() + first));

  stopped.min_tokens = static_cast<int>(first) + 5;
  result = *engine->Generate(kForever, prompt, stopped, nullptr);
  EXPECT_GE(result.completion_tokens, stopped.min_tokens);
  EXPECT_NE(TokensOf(result)[first], tokens[20]);

  GenerateOptions text = Greedy(60);
  text.echo = true;
  text.include_stop = true;
  const size_t at = Utf8Floor(plain.text, plain.text.size() / 2);
  text.stop = {plain.text.substr(at, Utf8Floor(plain.text, at + 6) - at)};
  const std::string before = SanitizeUtf8(engine->tokenizer().Decode(prompt));
  std::string streamed;
  result = *engine->Generate(kForever, prompt, text, [&](std::string_view delta) {
    streamed += delta;
    return true;
  });
  const size_t end = plain.text.find(text.stop[0]) + text.stop[0].size();
  EXPECT_EQ(result.text, before + plain.text.substr(0, end));
  EXPECT_EQ(streamed, result.text);
}

TEST(EngineTest, OnlyAllowedTokensAndNoBannedOnes) {
  const std::unique_ptr<Engine> engine = Load();
  GenerateOptions options = Greedy(30);
  options.sampling = {.temperature = 1.0f, .seed = 4};
  options.sampling.allowed_tokens = {10, 20, 30};
  options.sampling.banned_tokens = {20};
  const absl::StatusOr<GenerateResult> result =
      engine->Generate(kForever, RandomPrompt(5, 1), options, nullptr);
  ASSERT_TRUE(result.ok());
  for (const TokenId token : TokensOf(*result)) EXPECT_TRUE(token == 10 || token == 30);
  options.sampling.banned_tokens = {10, 20, 30};
  EXPECT_EQ(engine->Generate(kForever, RandomPrompt(5, 1), options, nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ExpectIdle(*engine);
}

TEST(EngineTest, AReaderThatDoesNotComeBackLosesItsRequest) {
  const std::unique_ptr<Engine> engine = Load({.reader_timeout = absl::Milliseconds(50)});
  StuckReader stuck(engine.get());
  EXPECT_TRUE(Eventually([&] { return engine->stats().running == 0; }));
  const absl::Status status = stuck.Release().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(status), "READER_STALLED");
  ExpectIdle(*engine);
}

}  // namespace
}  // namespace cairn::engine
