// Sampler draws the next token of one request from its logits.
//
// Order: penalties and biases, allowed and banned tokens, temperature, top-k, typical-p, top-p
// (each over what the one before left, renormalised), min-p (against the likeliest of all). The
// repetition penalty is CTRL's (https://arxiv.org/abs/1909.05858): the logits of all tokens of the
// prompt and of the output so far are divided by it where positive and multiplied where negative.
// Presence and frequency penalties are OpenAI's: from the logit of a token that stands count > 0
// times in the output, presence + count * frequency is taken. DRY is p-e-w's
// (https://github.com/oobabooga/text-generation-webui/pull/5677). Typical-p is Meister et al.'s
// (https://arxiv.org/abs/2202.00666). At temperature 0 the largest logit wins, the lowest id among
// equals. Nothing sorts the vocabulary: top-k selects, top-p pops a heap of the tokens that can
// matter, typical-p one of what top-k left.
//
// Reproducible: equal logits, parameters, seed and history give equal tokens. No shared state.
// Threads: thread-compatible.
#ifndef CAIRN_ENGINE_SAMPLING_SAMPLER_H_
#define CAIRN_ENGINE_SAMPLING_SAMPLER_H_

#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/status.h"
#include "engine/sampling/sampling_params.h"

namespace cairn::engine {

// INVALID_ARGUMENT naming the field ("sampling.temperature") that is out of range or not a number.
absl::Status ValidateSamplingParams(const SamplingParams& params);

class Sampler {
 public:
  // REQUIRES: valid params; all ids in [0, vocab_size). Here a seed of 0 is as good as another.
  // `dry_breakers` [vocab_size]: tokens over which DRY sees no repetition (line ends, quotes ...);
  // it is null or outlives the sampler.
  Sampler(const SamplingParams& params, std::span<const TokenId> prompt, int vocab_size,
          const std::vector<bool>* dry_breakers = nullptr);

  // logits: [vocab_size]. Draws a token, none of `forbidden`, and remembers it for the penalties.
  // INTERNAL when a logit is NaN or +infinity: the model computed nonsense, and any token would
  // hide that. FAILED_PRECONDITION when no token is left.
  absl::StatusOr<TokenId> Sample(std::span<const float> logits,
                                 std::span<const TokenId> forbidden = {});

 private:
  struct Candidate {
    TokenId id;
    float logit;
    double weight;  // exp((logit - max) / temperature)
  };
  void See(TokenId token);
  bool ChangesLogits() const;
  std::span<const float> Adjust(std::span<const float> logits, std::span<const TokenId> forbidden);
  void PenaliseRepetition(std::span<float> logits) const;
  // Keeps the best candidates, until together they hold `share` of the total weight, which becomes
  // theirs.
  template <typename Worse>
  void KeepMass(double share, Worse worse, double* total);
  void KeepTypical(float max_logit, double* total);
  void KeepNucleus(double* total);
  TokenId Draw(std::span<const float> logits, float max_logit);

  const SamplingParams params_;
  std::mt19937_64 rng_;
  std::vector<bool> seen_;                          // [vocab_size], empty when there is no penalty
  std::vector<TokenId> seen_ids_;                   // those set in seen_
  std::unordered_map<TokenId, int> output_counts_;  // empty when no penalty needs them
  const std::vector<bool>* const dry_breakers_;
  std::vector<TokenId> history_;  // prompt and output, for DRY; else empty
  std::vector<float> adjusted_;   // [vocab_size], scratch
  std::vector<Candidate> candidates_;
};

// The log-probability of `token` and of the `num_top` likeliest tokens, best first (lowest id first
// among equals). logits: [vocab_size].
TokenLogprob ComputeLogprob(std::span<const float> logits, TokenId token, int num_top);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SAMPLING_SAMPLER_H_
