#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "common/worker_pool.h"
#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/kv_cache.h"
#include "engine/kv_cache/prefix_cache.h"
#include "engine/model/weights.h"
#include "engine/runner/runner.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_matcher.h"
#include "engine/step_loop.h"
#include "engine/tokenizer/stream_decoder.h"

namespace cairn::engine {
namespace {

constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr int kMaxTopLogprobs = 20;

// Limits far above any use, so that sums of options fit an int.
constexpr int kMaxOption = 1 << 24;

// Ten times what a model of 70 billion weights needs; a hostile file could ask for more than there
// is.
constexpr int64_t kMaxScratchBytes = int64_t{4} << 30;

absl::Status CheckOption(std::string_view name, int64_t value, int64_t min,
                         int64_t max = kMaxOption) {
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidField(name, StrCat(value, " is not in [", min, ", ", max, "]"));
}

absl::Status ValidateOptions(const EngineOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckOption("max_context", options.max_context, 2));
  CAIRN_RETURN_IF_ERROR(CheckOption("max_queue", options.max_queue, 1));
  CAIRN_RETURN_IF_ERROR(CheckOption("max_running", options.max_running, 1, 1024));
  CAIRN_RETURN_IF_ERROR(
      CheckOption("step_token_budget", options.step_token_budget, options.max_running, 1 << 16));
  CAIRN_RETURN_IF_ERROR(CheckOption("mixed_prefill_tokens", options.mixed_prefill_tokens, 1));
  CAIRN_RETURN_IF_ERROR(CheckOption("num_threads", options.num_threads, 0, 1024));
  return CheckOption("kv_cache_tokens", options.kv_cache_tokens, 0, int64_t{1} << 32);
}

absl::Status ValidateGenerate(const std::vector<TokenId>& prompt, const GenerateOptions& options,
                              int vocab_size) {
  if (prompt.empty()) return InvalidField("prompt", "is empty");
  for (const TokenId token : prompt) {
    if (token < 0 || token >= vocab_size) {
      return InvalidField("prompt", StrCat("token ", token, " is not in [0, ", vocab_size, ")"));
    }
  }
  CAIRN_RETURN_IF_ERROR(ValidateSamplingParams(options.sampling));
  for (const auto& [token, bias] : options.sampling.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return InvalidField("logit_bias",
                          StrCat("token ", token, " is not in [0, ", vocab_size, ")"));
    }
  }
  if (options.max_tokens < 1) {
    return InvalidField("max_tokens", StrCat(options.max_tokens, " is not positive"));
  }
  if (options.top_logprobs < 0 || options.top_logprobs > kMaxTopLogprobs) {
    return InvalidField("top_logprobs",
                        StrCat(options.top_logprobs, " is not in [0, ", kMaxTopLogprobs, "]"));
  }
  if (options.stop.size() > kMaxStops) {
    return InvalidField("stop", StrCat(options.stop.size(), " strings; at most ", kMaxStops));
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return InvalidField("stop",
                          StrCat("a string of ", stop.size(), " bytes; 1 to ", kMaxStopBytes));
    }
    // What the matcher holds back then begins and ends at characters.
    if (!IsValidUtf8(stop)) return InvalidField("stop", "a string is not UTF-8");
  }
  return absl::OkStatus();
}

absl::Status CheckFits(int64_t prompt_tokens, int64_t max_tokens, int64_t max_context) {
  if (prompt_tokens + max_tokens <= max_context) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(StrCat(
                        "prompt of ", prompt_tokens, " tokens + max_tokens ", max_tokens, " = ",
                        prompt_tokens + max_tokens, " do not fit the context of ", max_context)),
                    "CONTEXT_OVERFLOW");
}

uint64_t SeedOf(const SamplingParams& params) {
  if (params.seed != 0) return params.seed;
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

class EngineImpl : public Engine {
 public:
  EngineImpl(std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<ChatTemplate> chat_template,
             std::unique_ptr<WorkerPool> workers, std::unique_ptr<ModelWeights> weights,
             std::unique_ptr<KvCache> cache, int num_blocks, int max_context,
             const EngineOptions& options)
      : tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        workers_(std::move(workers)),
        weights_(std::move(weights)),
        cache_(std::move(cache)),
        max_context_(max_context),
        pool_(num_blocks),
        prefixes_(&pool_),
        runner_(weights_.get(), cache_.get(), workers_.get(), options.step_token_budget,
                options.max_running),
        loop_({.max_running = options.max_running,
               .step_token_budget = options.step_token_budget,
               .mixed_prefill_tokens = options.mixed_prefill_tokens},
              options.max_queue, &pool_, options.prefix_cache ? &prefixes_ : nullptr, &runner_,
              tokenizer_->end_of_generation()) {}

  ~EngineImpl() override {
    loop_.Stop();  // ends the requests; their callers are still on their way out
    std::unique_lock<std::mutex> lock(callers_mutex_);
    callers_left_.wait(lock, [this] { return num_callers_ == 0; });
  }

  absl::StatusOr<GenerateResult> Generate(const RequestContext& context,
                                          const std::vector<TokenId>& prompt,
                                          const GenerateOptions& options,
                                          const TextCallback& on_text) override;

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const ChatTemplate& chat_template() const override { return *chat_template_; }
  int max_context() const override { return max_context_; }
  std::string architecture() const override { return weights_->config().architecture; }
  int64_t weight_bytes() const override { return weights_->memory_bytes(); }
  EngineStats stats() const override { return loop_.stats(); }

 private:
  // Keeps the engine alive while a caller is inside Generate.
  class CallerScope {
   public:
    explicit CallerScope(EngineImpl* engine) : engine_(*engine) {
      std::lock_guard<std::mutex> lock(engine_.callers_mutex_);
      ++engine_.num_callers_;
    }
    ~CallerScope() {
      std::lock_guard<std::mutex> lock(engine_.callers_mutex_);
      if (--engine_.num_callers_ == 0) engine_.callers_left_.notify_all();
    }

   private:
    EngineImpl& engine_;
  };

  // Turns tokens into text until the stream or the text ends.
  absl::Status Drain(const RequestContext& context, const GenerateOptions& options,
                     const TextCallback& on_text, Request* request, GenerateResult* result);

  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::unique_ptr<ChatTemplate> chat_template_;
  const std::unique_ptr<WorkerPool> workers_;
  const std::unique_ptr<ModelWeights> weights_;
  const std::unique_ptr<KvCache> cache_;
  const int max_context_;
  BlockPool pool_;
  PrefixCache prefixes_;
  Runner runner_;
  std::mutex callers_mutex_;
  std::condition_variable callers_left_;
  int num_callers_ = 0;
  StepLoop loop_;
};

absl::StatusOr<GenerateResult> EngineImpl::Generate(const RequestContext& context,
                                                    const std::vector<TokenId>& prompt,
                                                    const GenerateOptions& options,
                                                    const TextCallback& on_text) {
  const CallerScope scope(this);
  CAIRN_RETURN_IF_ERROR(context.Check());
  const int vocab_size = weights_->config().vocab_size;
  CAIRN_RETURN_IF_ERROR(ValidateGenerate(prompt, options, vocab_size));
  CAIRN_RETURN_IF_ERROR(
      CheckFits(static_cast<int64_t>(prompt.size()), options.max_tokens, max_context_));

  SamplingParams sampling = options.sampling;
  sampling.seed = SeedOf(sampling);
  const auto request = std::make_shared<Request>(
      context, prompt, options, Sampler(sampling, prompt, vocab_size), [this] { loop_.Wake(); });
  // Whatever way out this function takes, the loop sees the stream closed and lets the request go.
  struct Closer {
    TokenStream& stream;
    ~Closer() { stream.Close(); }
  } closer{request->stream};
  const CancelRegistration on_cancel = context.OnCancel([&] { request->stream.Close(); });

  const absl::Time submitted_at = absl::Now();
  CAIRN_RETURN_IF_ERROR(loop_.Submit(request));
  GenerateResult result;
  result.prompt_tokens = static_cast<int>(prompt.size());
  CAIRN_RETURN_IF_ERROR(Drain(context, options, on_text, request.get(), &result));
  result.queue_time = request->admitted_at - submitted_at;
  result.cached_tokens = request->num_cached;
  return result;
}

absl::Status EngineImpl::Drain(const RequestContext& context, const GenerateOptions& options,
                               const TextCallback& on_text, Request* request,
                               GenerateResult* result) {
  StreamDecoder decoder(*tokenizer_);
  StopMatcher stops(options.stop);
  absl::Time first_token_at = absl::InfiniteFuture();
  const auto emit = [&](const std::string& text) {
    result->text += text;
    return text.empty() || !on_text || on_text(text);
  };
  while (true) {
    CAIRN_ASSIGN_OR_RETURN(std::optional<TokenEvent> event, request->stream.Next(context));
    if (!event.has_value()) break;
    if (result->completion_tokens++ == 0) {
      first_token_at = event->sampled_at;
      result->prefill_time = first_token_at - request->admitted_at;
    }
    result->decode_time = event->sampled_at - first_token_at;
    const std::string text = stops.Feed(decoder.Feed(event->token.token));
    if (request->wants_logprobs) result->logprobs.push_back(std::move(event->token));
    if (!emit(text)) {
      result->finish_reason = FinishReason::kCancelled;
      return absl::OkStatus();
    }
    if (stops.matched()) {
      result->finish_reason = FinishReason::kStop;
      return absl::OkStatus();
    }
  }
  result->finish_reason = request->finish_reason;
  std::string rest = stops.Feed(decoder.Flush());
  if (stops.matched()) result->finish_reason = FinishReason::kStop;
  rest += stops.Flush();
  if (!emit(rest)) result->finish_reason = FinishReason::kCancelled;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(const std::string& path,
                                                     const EngineOptions& options) {
  CAIRN_RETURN_IF_ERROR(ValidateOptions(options));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(*file));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ChatTemplate> chat_template, ChatTemplate::Load(*file));
  const int num_threads = options.num_threads > 0
                              ? options.num_threads
                              : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto workers = std::make_unique<WorkerPool>(num_threads);
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ModelWeights> weights,
                         ModelWeights::Load(std::move(file), *workers));
  const ModelConfig& config = weights->config();
  if (tokenizer->vocab_size() != config.vocab_size) {
    return absl::InvalidArgumentError(StrCat("the tokenizer has ", tokenizer->vocab_size(),
                                             " tokens, the model ", config.vocab_size));
  }
  const int64_t scratch =
      Runner::ScratchBytes(config, options.step_token_budget, options.max_running);
  if (scratch > kMaxScratchBytes) {
    return absl::ResourceExhaustedError(
        StrCat("a step of ", options.step_token_budget, " tokens would need ", scratch,
               " bytes of scratch memory, more than ", kMaxScratchBytes));
  }
  const int max_context = std::min(options.max_context, config.context_length);
  const int64_t kv_tokens =
      options.kv_cache_tokens > 0 ? options.kv_cache_tokens : int64_t{max_context} * 2;
  if (kv_tokens < max_context) {
    return InvalidField("kv_cache_tokens",
                        StrCat(kv_tokens, " cannot hold one request of max_context ", max_context));
  }
  const int num_blocks = static_cast<int>(BlocksForTokens(kv_tokens));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                         KvCache::Create(config.num_layers, num_blocks, config.heads));
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(
      std::move(tokenizer), std::move(chat_template), std::move(workers), std::move(weights),
      std::move(cache), num_blocks, max_context, options));
}

}  // namespace cairn::engine
