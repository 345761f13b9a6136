#include "engine/request.h"

#include <utility>

namespace cairn::engine {
namespace {

// Tokens that a slow reader may be behind before its request pauses.
constexpr size_t kStreamCapacity = 64;

}  // namespace

Request::Request(RequestContext context, const std::vector<TokenId>& prompt,
                 GenerateOptions options, std::vector<TokenId> end_tokens,
                 std::vector<Sampler> samplers, std::function<void()> wake_loop)
    : context(std::move(context)),
      options(std::move(options)),
      end_tokens(std::move(end_tokens)),
      wants_logprobs(this->options.logprobs || this->options.top_logprobs > 0),
      stream(kStreamCapacity, static_cast<int>(samplers.size()), std::move(wake_loop)),
      num_unfinished(static_cast<int>(samplers.size())) {
  for (Sampler& sampler : samplers) {
    Choice choice(std::move(sampler));
    choice.index = static_cast<int>(choices.size());
    choice.sequence.salt = this->context.identity().tenant;
    choice.sequence.num_prompt = static_cast<int>(prompt.size());
    choice.sequence.max_tokens = this->options.max_tokens;
    choice.sequence.tokens = prompt;
    choices.push_back(std::move(choice));
  }
  // The first computes the prompt; the others continue from there.
  choices[0].sequence.num_forks = num_unfinished - 1;
  choices[0].sequence.prompt_logits = this->options.prompt_logprobs;
}

}  // namespace cairn::engine
