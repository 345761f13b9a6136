// Engine: one generator model, many concurrent requests.
//
// A step loop on its own thread fills a token budget with whatever requests owe (prompt or next
// tokens); callers block in Generate on their own threads, where detokenising, stop strings and
// callbacks happen, so a slow reader never holds a step back.
//
// Ownership: Load owns model weights and KV cache for the engine's life.
// Threads:   thread-safe. The destructor ends running requests with CANCELLED.
// Errors:    Generate and GenerateMany: INVALID_ARGUMENT (a parameter out of range, naming the
// field),
//            FAILED_PRECONDITION reason CONTEXT_OVERFLOW (prompt + max_tokens do not fit; nothing
//            is cut silently), RESOURCE_EXHAUSTED reason QUEUE_FULL with a retry delay, CANCELLED,
//
//            Load: NOT_FOUND, INVALID_ARGUMENT or OUT_OF_RANGE for a file that contradicts itself,
//            UNIMPLEMENTED naming what we do not have, RESOURCE_EXHAUSTED with the bytes.
#ifndef CAIRN_ENGINE_ENGINE_H_
#define CAIRN_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "common/status.h"
#include "engine/chat/chat_template.h"
#include "engine/model/estimate.h"
#include "engine/sampling/sampling_params.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

struct EngineOptions {
  // Behaviour.
  int max_context = 8192;  // tokens a request may hold; capped by the model's own limit
  int max_queue = 64;      // waiting requests before QUEUE_FULL
  // Who is admitted next: first_come, priority or shortest_prompt
  // (engine/scheduler/queue_policy.h).
  std::string queue_policy = "first_come";
  // A request whose reader takes nothing for so long ends with ABORTED.
  absl::Duration reader_timeout = absl::Minutes(1);
  // Performance.
  int max_running = 8;  // requests decoded together
  // Tokens computed per step: larger = faster prefill, and a longer wait for the next request.
  int step_token_budget = 512;
  // How long other requests' prompts may hold up streams between two tokens: shorter = smoother
  // text, and slower prompts while somebody streams. Kept by what steps have been seen to cost, so
  // it may be missed by a step; a step without any prompt may take longer by itself.
  absl::Duration max_stall = absl::Milliseconds(250);
  // Size of the KV cache in tokens; 0 = twice max_context. A token costs 4 * layers * KV heads *
  // head dimension bytes, taken when it is first used.
  int64_t kv_cache_tokens = 0;
  // Keep the keys and values of finished requests, as long as there is room, for requests of the
  // same tenant that begin alike.
  bool prefix_cache = true;
  int num_threads = 0;  // 0 = hardware concurrency
};

struct GenerateOptions {
  SamplingParams sampling;
  int n = 1;             // samples of the prompt, [1, max_running]; choice i has seed + i
  int max_tokens = 512;  // > 0
  int min_tokens = 0;    // [0, max_tokens]: nothing ends the text before
  // At most 16, each 1..256 bytes of UTF-8; the match is not part of the text, unless include_stop.
  std::vector<std::string> stop;
  bool include_stop = false;
  std::vector<TokenId> stop_tokens;  // end the text like the model's own end; at most 64
  bool ignore_eos = false;
  bool echo = false;  // the text begins with the prompt's
  // 0..20 alternatives per token. Logprobs are filled when this is > 0 or `logprobs` is set.
  int top_logprobs = 0;
  bool logprobs = false;
  bool prompt_logprobs = false;  // of the prompt's tokens but the first, which nothing predicts
  int priority = 0;  // [-100, 100], larger is more urgent; for the queue policy of that name
  // Guess at text that repeats the prompt or itself, and verify (engine/speculative): faster where
  // it quotes, and the same tokens either way.
  bool prompt_lookup = true;
};

enum class FinishReason { kStop, kLength, kCancelled };

struct GenerateResult {
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;  // of the prompt, whose keys and values were in the prefix cache
  std::vector<TokenLogprob> logprobs, prompt_logprobs;
  absl::Duration queue_time, prefill_time, decode_time;  // time to first token = queue + prefill
};

// Called on the caller's thread with text that is whole UTF-8 characters and can no longer be part
// of a stop string. Returning false ends the request with kCancelled.
using TextCallback = std::function<bool(std::string_view delta)>;

using ChoiceCallback = std::function<bool(int choice, std::string_view delta)>;

struct EngineStats {
  int running = 0;    // sequences
  int preempted = 0;  // waiting to go on
  int queued = 0;
  int64_t kv_tokens_used = 0, kv_tokens_total = 0;
  int64_t kv_tokens_cached = 0;  // held by the prefix cache alone, given back when needed
  int64_t prompt_tokens = 0, completion_tokens = 0, steps = 0;  // computed
  int64_t cached_prompt_tokens = 0;                             // not computed
  int64_t preemptions = 0;
  int64_t draft_tokens = 0, accepted_draft_tokens = 0;
  int64_t kv_inconsistencies =
      0;  // times that blocks were lost when the engine was idle: a bug when not 0
};

class Engine {
 public:
  // What Load would take, from the file's header. Load refuses what the machine's memory cannot
  // hold: weights, scratch and a full KV cache.
  static absl::StatusOr<MemoryEstimate> Estimate(const std::string& path,
                                                 const EngineOptions& options);
  static absl::StatusOr<std::unique_ptr<Engine>> Load(const std::string& path,
                                                      const EngineOptions& options);
  virtual ~Engine() = default;

  // REQUIRES: options.n == 1.
  absl::StatusOr<GenerateResult> Generate(const RequestContext& context,
                                          const std::vector<TokenId>& prompt,
                                          const GenerateOptions& options,
                                          const TextCallback& on_text);
  // options.n results, in the order of choices; prompt_logprobs stand in the first. A callback that
  // returns false ends its own choice.
  virtual absl::StatusOr<std::vector<GenerateResult>> GenerateMany(
      const RequestContext& context, const std::vector<TokenId>& prompt,
      const GenerateOptions& options, const ChoiceCallback& on_text) = 0;

  virtual const Tokenizer& tokenizer() const = 0;
  virtual const ChatTemplate& chat_template() const = 0;
  virtual int max_context() const = 0;
  virtual std::string architecture() const = 0;
  virtual int64_t weight_bytes() const = 0;
  virtual EngineStats stats() const = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_ENGINE_H_
