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

struct SamplingParams {
  float temperature = 0.0f;         // 0 = greedy; [0, 10]
  int top_k = 0;                    // 0 = off
  float top_p = 1.0f;               // (0, 1]; 1 = off
  float min_p = 0.0f;               // [0, 1); 0 = off
  float repetition_penalty = 1.0f;  // (0, 10]; 1 = off
  float presence_penalty = 0.0f;    // [-2, 2]; 0 = off
  float frequency_penalty = 0.0f;   // [-2, 2]; 0 = off
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
