#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "common/check.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

// Best first; among equals the lower id.
template <typename T>
bool Better(const T& a, const T& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

struct ScoredToken {
  TokenId id;
  float logit;
};

absl::Status OutOfRange(std::string_view field, double value, std::string_view range) {
  return InvalidField(field, StrCat(value, " is not in ", range));
}

}  // namespace

absl::Status ValidateSamplingParams(const SamplingParams& p) {
  // Written so that NaN fails each of them.
  if (!(p.temperature >= 0 && p.temperature <= 10)) {
    return OutOfRange("temperature", p.temperature, "[0, 10]");
  }
  if (p.top_k < 0) return OutOfRange("top_k", p.top_k, "[0, 2147483647]");
  if (!(p.top_p > 0 && p.top_p <= 1)) return OutOfRange("top_p", p.top_p, "(0, 1]");
  if (!(p.min_p >= 0 && p.min_p < 1)) return OutOfRange("min_p", p.min_p, "[0, 1)");
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= 10)) {
    return OutOfRange("repetition_penalty", p.repetition_penalty, "(0, 10]");
  }
  if (!(std::fabs(p.presence_penalty) <= 2)) {
    return OutOfRange("presence_penalty", p.presence_penalty, "[-2, 2]");
  }
  if (!(std::fabs(p.frequency_penalty) <= 2)) {
    return OutOfRange("frequency_penalty", p.frequency_penalty, "[-2, 2]");
  }
  if (p.logit_bias.size() > kMaxLogitBiases) {
    return InvalidField("logit_bias",
                        StrCat(p.logit_bias.size(), " tokens; at most ", kMaxLogitBiases));
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (!(std::fabs(bias) <= 100)) return OutOfRange("logit_bias", bias, "[-100, 100]");
  }
  return absl::OkStatus();
}

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> prompt, int vocab_size)
    : params_(params), rng_(params.seed) {
  if (params_.repetition_penalty == 1.0f) return;
  seen_.resize(vocab_size, false);
  for (const TokenId token : prompt) See(token);
}

void Sampler::See(TokenId token) {
  if (seen_.empty() || seen_[token]) return;
  seen_[token] = true;
  seen_ids_.push_back(token);
}

std::span<const float> Sampler::Penalise(std::span<const float> logits) {
  if (seen_ids_.empty() && output_counts_.empty() && params_.logit_bias.empty()) return logits;
  penalised_.assign(logits.begin(), logits.end());
  for (const TokenId id : seen_ids_) {
    float& logit = penalised_[id];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  }
  for (const auto& [id, count] : output_counts_) {
    penalised_[id] -=
        params_.presence_penalty + static_cast<float>(count) * params_.frequency_penalty;
  }
  for (const auto& [id, bias] : params_.logit_bias) penalised_[id] += bias;
  return penalised_;
}

absl::StatusOr<TokenId> Sampler::Sample(std::span<const float> raw_logits) {
  const std::span<const float> logits = Penalise(raw_logits);
  TokenId best = 0;
  bool finite = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    finite &= logits[i] <= FLT_MAX;  // false for NaN and +infinity
    if (logits[i] > logits[best]) best = static_cast<TokenId>(i);
  }
  if (!finite || !(logits[best] >= -FLT_MAX)) {
    return absl::InternalError("the model computed logits that are not finite");
  }
  const TokenId token = params_.temperature == 0 ? best : Draw(logits, logits[best]);
  See(token);
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) ++output_counts_[token];
  return token;
}

TokenId Sampler::Draw(std::span<const float> logits, float max_logit) {
  const float temperature = params_.temperature;
  // min-p compares with the largest probability, so it is a bound on logits and can go first.
  const float floor =
      params_.min_p > 0 ? max_logit + temperature * std::log(params_.min_p) : -INFINITY;
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= floor) candidates_.push_back({static_cast<TokenId>(i), logits[i], 0});
  }
  const size_t top_k = params_.top_k;
  if (top_k > 0 && top_k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + (top_k - 1), candidates_.end(),
                     Better<Candidate>);
    candidates_.resize(top_k);
  }
  double total = 0;
  for (Candidate& c : candidates_) {
    c.weight = std::exp((c.logit - max_logit) / temperature);
    total += c.weight;
  }
  if (params_.top_p < 1) {
    // Together, the tokens below this weight hold less than 1 - top_p: none of them is in the
    // nucleus.
    const double bound = (1.0 - params_.top_p) * total / static_cast<double>(candidates_.size());
    std::erase_if(candidates_, [bound](const Candidate& c) { return c.weight < bound; });
    const auto worse = [](const Candidate& a, const Candidate& b) { return Better(b, a); };
    std::make_heap(candidates_.begin(), candidates_.end(), worse);
    const double target = params_.top_p * total;
    double mass = 0;
    auto heap_end = candidates_.end();
    while (heap_end != candidates_.begin() && mass < target) {
      std::pop_heap(candidates_.begin(), heap_end, worse);
      mass += (--heap_end)->weight;
    }
    candidates_.erase(candidates_.begin(), heap_end);
    total = mass;
  }
  const double uniform = static_cast<double>(rng_() >> 11) * 0x1p-53;  // [0, 1)
  double left = uniform * total;
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;  // rounding used the last bit up
}

TokenLogprob ComputeLogprob(std::span<const float> logits, TokenId token, int num_top) {
  const float max_logit = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max_logit);
  const double log_sum = max_logit + std::log(sum);

  TokenLogprob result;
  result.token = token;
  result.logprob = static_cast<float>(logits[token] - log_sum);
  if (num_top == 0) return result;
  // A heap of the best so far, the worst of them on top.
  std::vector<ScoredToken> top;
  for (size_t i = 0; i < logits.size(); ++i) {
    const ScoredToken candidate{static_cast<TokenId>(i), logits[i]};
    if (static_cast<int>(top.size()) == num_top) {
      if (!Better(candidate, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), Better<ScoredToken>);
      top.pop_back();
    }
    top.push_back(candidate);
    std::push_heap(top.begin(), top.end(), Better<ScoredToken>);
  }
  std::sort_heap(top.begin(), top.end(), Better<ScoredToken>);
  for (const ScoredToken& t : top)
    result.top.emplace_back(t.id, static_cast<float>(t.logit - log_sum));
  return result;
}

}  // namespace cairn::engine
