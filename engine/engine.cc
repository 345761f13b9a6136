#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
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
#include "engine/request.h"
#include "engine/runner/runner.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_matcher.h"
#include "engine/speculative/prompt_lookup.h"
#include "engine/step_loop.h"
#include "engine/tokenizer/stream_decoder.h"

namespace cairn::engine {
namespace {

constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr size_t kMaxStopTokens = 64;
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
  CAIRN_RETURN_IF_ERROR(
      CheckOption("max_stall", absl::ToInt64Milliseconds(options.max_stall), 1, 3'600'000));
  CAIRN_RETURN_IF_ERROR(
      CheckOption("reader_timeout", absl::ToInt64Milliseconds(options.reader_timeout), 1));
  CAIRN_RETURN_IF_ERROR(CheckOption("num_threads", options.num_threads, 0, 1024));
  return CheckOption("kv_cache_tokens", options.kv_cache_tokens, 0, int64_t{1} << 32);
}

absl::Status CheckTokens(std::string_view field, std::span<const TokenId> tokens, int vocab_size) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return InvalidField(field, StrCat("token ", token, " is not in [0, ", vocab_size, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateGenerate(const std::vector<TokenId>& prompt, const GenerateOptions& options,
                              int vocab_size, int max_running) {
  if (prompt.empty()) return InvalidField("prompt", "is empty");
  CAIRN_RETURN_IF_ERROR(CheckTokens("prompt", prompt, vocab_size));
  const SamplingParams& sampling = options.sampling;
  CAIRN_RETURN_IF_ERROR(ValidateSamplingParams(sampling));
  CAIRN_RETURN_IF_ERROR(
      CheckTokens("sampling.allowed_tokens", sampling.allowed_tokens, vocab_size));
  CAIRN_RETURN_IF_ERROR(CheckTokens("sampling.banned_tokens", sampling.banned_tokens, vocab_size));
  for (const auto& [token, bias] : sampling.logit_bias) {
    CAIRN_RETURN_IF_ERROR(CheckTokens("sampling.logit_bias", {&token, 1}, vocab_size));
  }
  CAIRN_RETURN_IF_ERROR(CheckTokens("stop_tokens", options.stop_tokens, vocab_size));
  if (options.stop_tokens.size() > kMaxStopTokens) {
    return InvalidField("stop_tokens",
                        StrCat(options.stop_tokens.size(), " tokens; at most ", kMaxStopTokens));
  }
  CAIRN_RETURN_IF_ERROR(CheckOption("n", options.n, 1, max_running));
  if (options.max_tokens < 1) {
    return InvalidField("max_tokens", StrCat(options.max_tokens, " is not positive"));
  }
  CAIRN_RETURN_IF_ERROR(CheckOption("min_tokens", options.min_tokens, 0, options.max_tokens));
  CAIRN_RETURN_IF_ERROR(CheckOption("priority", options.priority, -100, 100));
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

int MaxLogitRows(const EngineOptions& options) { return options.max_running + kMaxDraft; }

uint64_t SeedOf(const SamplingParams& params) {
  if (params.seed != 0) return params.seed;
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

absl::StatusOr<MemoryEstimate> EstimateOf(const GgufFile& file, const ModelConfig& config,
                                          const EngineOptions& options) {
  const int64_t scratch =
      Runner::ScratchBytes(config, options.step_token_budget, MaxLogitRows(options));
  if (scratch > kMaxScratchBytes) {
    return absl::ResourceExhaustedError(
        StrCat("a step of ", options.step_token_budget, " tokens would need ", scratch,
               " bytes of scratch memory, more than ", kMaxScratchBytes));
  }
  return EstimateMemory(file, config, scratch);
}

class EngineImpl : public Engine {
 public:
  EngineImpl(std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<ChatTemplate> chat_template,
             std::unique_ptr<WorkerPool> workers, std::unique_ptr<ModelWeights> weights,
             std::unique_ptr<KvCache> cache, std::unique_ptr<QueuePolicy> policy, int num_blocks,
             int max_context, const EngineOptions& options)
      : tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        workers_(std::move(workers)),
        weights_(std::move(weights)),
        cache_(std::move(cache)),
        max_context_(max_context),
        pool_(num_blocks),
        prefixes_(&pool_),
        max_running_(options.max_running),
        runner_(weights_.get(), cache_.get(), workers_.get(), options.step_token_budget,
                MaxLogitRows(options)),
        loop_({.scheduler = {.max_running = options.max_running,
                             .step_token_budget = options.step_token_budget,
                             .max_logit_rows = MaxLogitRows(options)},
               .max_queue = options.max_queue,
               .max_stall = options.max_stall,
               .reader_timeout = options.reader_timeout},
              std::move(policy), &pool_, options.prefix_cache ? &prefixes_ : nullptr, &runner_) {}

  ~EngineImpl() override {
    loop_.Stop();  // ends the requests; their callers are still on their way out
    std::unique_lock<std::mutex> lock(callers_mutex_);
    callers_left_.wait(lock, [this] { return num_callers_ == 0; });
  }

  absl::StatusOr<std::vector<GenerateResult>> GenerateMany(const RequestContext& context,
                                                           const std::vector<TokenId>& prompt,
                                                           const GenerateOptions& options,
                                                           const ChoiceCallback& on_text) override;

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

  std::vector<Sampler> MakeSamplers(const SamplingParams& params, int n,
                                    std::span<const TokenId> prompt);
  // Tokens in which a repetition ends for the DRY penalty; made at the first use.
  const std::vector<bool>& DryBreakers();
  // Turns tokens into text until the stream or all texts end.
  absl::Status Drain(const std::vector<TokenId>& prompt, const ChoiceCallback& on_text,
                     Request* request, std::vector<GenerateResult>* results);

  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::unique_ptr<ChatTemplate> chat_template_;
  const std::unique_ptr<WorkerPool> workers_;
  const std::unique_ptr<ModelWeights> weights_;
  const std::unique_ptr<KvCache> cache_;
  const int max_context_;
  std::once_flag dry_breakers_made_;
  std::vector<bool> dry_breakers_;
  BlockPool pool_;
  PrefixCache prefixes_;
  const int max_running_;
  Runner runner_;
  std::mutex callers_mutex_;
  std::condition_variable callers_left_;
  int num_callers_ = 0;
  StepLoop loop_;
};

std::vector<Sampler> EngineImpl::MakeSamplers(const SamplingParams& params, int n,
                                              std::span<const TokenId> prompt) {
  const std::vector<bool>* breakers = params.dry_multiplier > 0 ? &DryBreakers() : nullptr;
  SamplingParams own = params;
  own.seed = SeedOf(params);
  std::vector<Sampler> samplers;
  for (int i = 0; i < n; ++i, ++own.seed) {
    samplers.emplace_back(own, prompt, weights_->config().vocab_size, breakers);
  }
  return samplers;
}

const std::vector<bool>& EngineImpl::DryBreakers() {
  std::call_once(dry_breakers_made_, [this] {
    dry_breakers_.resize(tokenizer_->vocab_size());
    for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
      // Where the lists and dialogues that may repeat their beginnings break (DRY's own defaults).
      dry_breakers_[id] = tokenizer_->IsControl(id) ||
                          tokenizer_->TokenBytes(id).find_first_of("\n:\"*") != std::string::npos;
    }
  });
  return dry_breakers_;
}

absl::StatusOr<std::vector<GenerateResult>> EngineImpl::GenerateMany(
    const RequestContext& context, const std::vector<TokenId>& prompt,
    const GenerateOptions& options, const ChoiceCallback& on_text) {
  const CallerScope scope(this);
  CAIRN_RETURN_IF_ERROR(context.Check());
  CAIRN_RETURN_IF_ERROR(
      ValidateGenerate(prompt, options, weights_->config().vocab_size, max_running_));
  CAIRN_RETURN_IF_ERROR(
      CheckFits(static_cast<int64_t>(prompt.size()), options.max_tokens, max_context_));

  std::vector<TokenId> end_tokens = options.stop_tokens;
  if (!options.ignore_eos) {
    const std::span<const TokenId> own = tokenizer_->end_of_generation();
    end_tokens.insert(end_tokens.end(), own.begin(), own.end());
  }
  const auto request = std::make_shared<Request>(context, prompt, options, std::move(end_tokens),
                                                 MakeSamplers(options.sampling, options.n, prompt),
                                                 [this] { loop_.Wake(); });
  // Whatever way out this function takes, the loop sees the stream closed and lets the request go.
  struct Closer {
    TokenStream& stream;
    ~Closer() { stream.Close(); }
  } closer{request->stream};
  const CancelRegistration on_cancel = context.OnCancel([&] { request->stream.Close(); });

  const absl::Time submitted_at = absl::Now();
  CAIRN_RETURN_IF_ERROR(loop_.Submit(request));
  std::vector<GenerateResult> results(options.n);
  CAIRN_RETURN_IF_ERROR(Drain(prompt, on_text, request.get(), &results));
  for (GenerateResult& result : results) {
    result.prompt_tokens = static_cast<int>(prompt.size());
    result.queue_time = request->admitted_at - submitted_at;
    result.cached_tokens = request->num_cached;
  }
  results[0].prompt_logprobs = std::move(request->prompt_logprobs);
  return results;
}

// What becomes of the tokens of one choice on their way to the caller.
class TextWriter {
 public:
  TextWriter(const Tokenizer& tokenizer, const Request& request, int choice,
             const ChoiceCallback& on_text, GenerateResult* result)
      : request_(request),
        choice_(choice),
        on_text_(on_text),
        result_(*result),
        decoder_(tokenizer),
        stops_(request.options.stop, request.options.include_stop) {}

  bool ended() const { return ended_; }

  void Emit(const std::string& text) {
    result_.text += text;
    if (!text.empty() && on_text_ && !on_text_(choice_, text)) End(FinishReason::kCancelled);
  }

  void Take(TokenEvent event) {
    if (result_.completion_tokens++ == 0) {
      first_token_at_ = event.sampled_at;
      result_.prefill_time = first_token_at_ - request_.admitted_at;
    }
    result_.decode_time = event.sampled_at - first_token_at_;
    const std::string text = decoder_.Feed(event.token.token);
    if (request_.wants_logprobs) result_.logprobs.push_back(std::move(event.token));
    const bool may_stop = result_.completion_tokens > request_.options.min_tokens;
    Emit(may_stop ? stops_.Feed(text) : text);
    if (stops_.matched()) End(FinishReason::kStop);
  }

  // The model's own end.
  void Flush() {
    if (ended_) return;
    result_.finish_reason = request_.choices[choice_].finish_reason;
    const std::string rest = stops_.Feed(decoder_.Flush());
    Emit(rest + stops_.Flush());
    if (stops_.matched()) result_.finish_reason = FinishReason::kStop;
  }

 private:
  void End(FinishReason reason) {
    if (!ended_) result_.finish_reason = reason;
    ended_ = true;
  }

  const Request& request_;
  const int choice_;
  const ChoiceCallback& on_text_;
  GenerateResult& result_;
  StreamDecoder decoder_;
  StopMatcher stops_;
  absl::Time first_token_at_ = absl::InfiniteFuture();
  bool ended_ = false;
};

absl::Status EngineImpl::Drain(const std::vector<TokenId>& prompt, const ChoiceCallback& on_text,
                               Request* request, std::vector<GenerateResult>* results) {
  std::deque<TextWriter> writers;
  int num_open = 0;
  for (GenerateResult& result : *results) {
    writers.emplace_back(*tokenizer_, *request, num_open++, on_text, &result);
    if (request->options.echo) writers.back().Emit(SanitizeUtf8(tokenizer_->Decode(prompt)));
  }
  while (num_open > 0) {
    CAIRN_ASSIGN_OR_RETURN(std::optional<TokenEvent> event, request->stream.Next(request->context));
    if (!event.has_value()) break;
    const int choice = event->choice;
    if (writers[choice].ended()) continue;
    writers[choice].Take(*std::move(event));
    if (!writers[choice].ended()) continue;
    request->stream.Close(choice);
    --num_open;
  }
  for (TextWriter& writer : writers) writer.Flush();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerateResult> Engine::Generate(const RequestContext& context,
                                                const std::vector<TokenId>& prompt,
                                                const GenerateOptions& options,
                                                const TextCallback& on_text) {
  if (options.n != 1) return InvalidField("n", StrCat(options.n, " samples; here 1"));
  ChoiceCallback callback;
  if (on_text) callback = [&](int, std::string_view delta) { return on_text(delta); };
  CAIRN_ASSIGN_OR_RETURN(std::vector<GenerateResult> results,
                         GenerateMany(context, prompt, options, callback));
  return std::move(results[0]);
}

absl::StatusOr<MemoryEstimate> Engine::Estimate(const std::string& path,
                                                const EngineOptions& options) {
  CAIRN_RETURN_IF_ERROR(ValidateOptions(options));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  CAIRN_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*file));
  return EstimateOf(*file, config, options);
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(const std::string& path,
                                                     const EngineOptions& options) {
  CAIRN_RETURN_IF_ERROR(ValidateOptions(options));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<QueuePolicy> policy,
                         QueuePolicyByName(options.queue_policy));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  CAIRN_ASSIGN_OR_RETURN(const ModelConfig header, ReadModelConfig(*file));
  CAIRN_ASSIGN_OR_RETURN(const MemoryEstimate estimate, EstimateOf(*file, header, options));
  const int max_context = std::min(options.max_context, header.context_length);
  const int64_t kv_tokens =
      options.kv_cache_tokens > 0 ? options.kv_cache_tokens : int64_t{max_context} * 2;
  if (kv_tokens < max_context) {
    return InvalidField("kv_cache_tokens",
                        StrCat(kv_tokens, " cannot hold one request of max_context ", max_context));
  }
  CAIRN_RETURN_IF_ERROR(estimate.CheckFits(PhysicalMemory(), kv_tokens, 1));
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
  const int num_blocks = static_cast<int>(BlocksForTokens(kv_tokens));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                         KvCache::Create(config.num_layers, num_blocks, config.heads));
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(
      std::move(tokenizer), std::move(chat_template), std::move(workers), std::move(weights),
      std::move(cache), std::move(policy), num_blocks, max_context, options));
}

}  // namespace cairn::engine
