// Engine: one generator model, many concurrent requests.
//
// A step loop on its own thread fills a token budget with whatever requests owe (prompt or next
// tokens); callers block in Generate on their own threads, where detokenising, stop strings and
// callbacks happen, so a slow reader never holds a step back.
//
// Ownership: Load owns model weights and KV cache for the engine's life.
// Threads:   thread-safe. The destructor ends running requests with CANCELLED.
// Errors:    Generate: INVALID_ARGUMENT (a parameter out of range, naming the field),
//            FAILED_PRECONDITION reason CONTEXT_OVERFLOW (prompt + max_tokens do not fit; nothing
//            is cut silently), RESOURCE_EXHAUSTED reason QUEUE_FULL with a retry delay, CANCELLED,
//            DEADLINE_EXCEEDED, INTERNAL (the model computed no numbers).
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
#include "engine/sampling/sampling_params.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

struct EngineOptions {
  // Behaviour.
  int max_context = 8192;  // tokens a request may hold; capped by the model's own limit
  int max_queue = 64;      // waiting requests before QUEUE_FULL
  // Performance.
  int max_running = 8;  // requests decoded together
  // Tokens computed per step: larger = faster prefill, and a longer wait for the next request.
  int step_token_budget = 512;
  // Prompt tokens in a step that others decode in: bounds the pause in their streams.
  int mixed_prefill_tokens = 32;
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
  int max_tokens = 512;  // > 0
  // At most 16, each 1..256 bytes of UTF-8; the match is not part of the text.
  std::vector<std::string> stop;
  bool ignore_eos = false;
  // 0..20 alternatives per token. Logprobs are filled when this is > 0 or `logprobs` is set.
  int top_logprobs = 0;
  bool logprobs = false;
};

enum class FinishReason { kStop, kLength, kCancelled };

struct GenerateResult {
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;  // of the prompt, whose keys and values were in the prefix cache
  std::vector<TokenLogprob> logprobs;
  absl::Duration queue_time, prefill_time, decode_time;  // time to first token = queue + prefill
};

// Called on the caller's thread with text that is whole UTF-8 characters and can no longer be part
// of a stop string. Returning false ends the request with kCancelled.
using TextCallback = std::function<bool(std::string_view delta)>;

struct EngineStats {
  int running = 0;
  int queued = 0;
  int64_t kv_tokens_used = 0, kv_tokens_total = 0;
  int64_t kv_tokens_cached = 0;  // held by the prefix cache alone, given back when needed
  int64_t prompt_tokens = 0, completion_tokens = 0, steps = 0;  // computed
  int64_t cached_prompt_tokens = 0;                             // not computed
  int64_t kv_inconsistencies =
      0;  // times that blocks were lost when the engine was idle: a bug when not 0
};

class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Load(const std::string& path,
                                                      const EngineOptions& options);
  virtual ~Engine() = default;

  virtual absl::StatusOr<GenerateResult> Generate(const RequestContext& context,
                                                  const std::vector<TokenId>& prompt,
                                                  const GenerateOptions& options,
                                                  const TextCallback& on_text) = 0;

  virtual const Tokenizer& tokenizer() const = 0;
  virtual const ChatTemplate& chat_template() const = 0;
  virtual int max_context() const = 0;
  virtual std::string architecture() const = 0;
  virtual int64_t weight_bytes() const = 0;
  virtual EngineStats stats() const = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_ENGINE_H_
