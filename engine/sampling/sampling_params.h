// What a request may ask of the sampler, and what it gets back about probabilities.
#ifndef CAIRN_ENGINE_SAMPLING_SAMPLING_PARAMS_H_
#define CAIRN_ENGINE_SAMPLING_SAMPLING_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

inline constexpr size_t kMaxLogitBiases = 1024;
inline constexpr size_t kMaxListedTokens = 1024;  // allowed or banned

struct SamplingParams {
  float temperature = 0.0f;         // 0 = greedy; [0, 10]
  int top_k = 0;                    // 0 = off
  float top_p = 1.0f;               // (0, 1]; 1 = off
  float min_p = 0.0f;               // [0, 1); 0 = off
  float typical_p = 1.0f;           // (0, 1]; 1 = off
  float repetition_penalty = 1.0f;  // (0, 10]; 1 = off
  float presence_penalty = 0.0f;    // [-2, 2]; 0 = off
  float frequency_penalty = 0.0f;   // [-2, 2]; 0 = off
  // Against text that repeats itself word for word ("DRY"): a token that would make the last n >=
  // dry_allowed_length tokens and itself a repetition of the last dry_range tokens (0 = all) loses
  // dry_multiplier * dry_base^(n - dry_allowed_length) of its logit.
  float dry_multiplier = 0.0f;  // [0, 100]; 0 = off
  float dry_base = 1.75f;       // [1, 10]
  int dry_allowed_length = 2;   // [1, 1024]
  int dry_range = 0;            // >= 0
  // No other tokens (empty = all), and never these. At most kMaxListedTokens each.
  std::vector<TokenId> allowed_tokens, banned_tokens;
  // Added to the logits of single tokens, [-100, 100]; at most kMaxLogitBiases.
  std::vector<std::pair<TokenId, float>> logit_bias;
  uint64_t seed = 0;  // 0 = drawn by the engine
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural log, from the raw logits at temperature 1
  std::vector<std::pair<TokenId, float>> top;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SAMPLING_SAMPLING_PARAMS_H_
