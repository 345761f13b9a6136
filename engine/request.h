// Request: one call of Generate, shared by its caller, who reads the stream, and the step loop,
// which does all the rest.
#ifndef CAIRN_ENGINE_REQUEST_H_
#define CAIRN_ENGINE_REQUEST_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "engine/engine.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler/sequence.h"
#include "engine/speculative/prompt_lookup.h"
#include "engine/token_stream.h"

namespace cairn::engine {

// One of the n continuations of a prompt.
struct Choice {
  explicit Choice(Sampler sampler) : sampler(std::move(sampler)) {}

  int index = 0;
  Sequence sequence;
  Sampler sampler;
  PromptLookup lookup;
  FinishReason finish_reason = FinishReason::kLength;
};

// The loop's own once submitted; what the caller may read is said beside it.
struct Request {
  // `end_tokens` end a choice. One sampler a choice.
  Request(RequestContext context, const std::vector<TokenId>& prompt, GenerateOptions options,
          std::vector<TokenId> end_tokens, std::vector<Sampler> samplers,
          std::function<void()> wake_loop);

  bool gone(int choice) const { return stream.closed(choice) || !context.Check().ok(); }

  const RequestContext context;
  const GenerateOptions options;
  const std::vector<TokenId> end_tokens;
  const bool wants_logprobs;
  TokenStream stream;
  std::vector<Choice> choices;  // finish_reason: the caller's, after the stream has ended
  int num_unfinished;
  bool failed = false;
  absl::Time paused_at = absl::InfiniteFuture();  // since when the reader has left no room

  // The caller's after the first token.
  absl::Time admitted_at = absl::InfiniteFuture();
  int num_cached = 0;                         // tokens of the prompt
  std::vector<TokenLogprob> prompt_logprobs;  // of the prompt's tokens but the first
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_REQUEST_H_
