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

// How many tokens before each position, itself included, are also the last tokens of the text:
// lengths[i] for the i-th token of `text`. (The Z function of the reversed text, Gusfield 1997.)
std::vector<int> SuffixMatches(std::span<const TokenId> text) {
  const int n = static_cast<int>(text.size());
  const auto at = [&](int i) { return text[n - 1 - i]; };
  std::vector<int> lengths(n, 0);
  for (int i = 1, left = 0, right = 0; i < n; ++i) {
    int z = i < right ? std::min(right - i, lengths[n - 1 - (i - left)]) : 0;
    while (i + z < n && at(z) == at(i + z)) ++z;
    lengths[n - 1 - i] = z;
    if (i + z > right) {
      left = i;
      right = i + z;
    }
  }
  return lengths;
}

absl::Status OutOfRange(std::string_view field, double value, std::string_view range) {
  return InvalidField(StrCat("sampling.", field), StrCat(value, " is not in ", range));
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
  if (!(p.typical_p > 0 && p.typical_p <= 1)) {
    return OutOfRange("typical_p", p.typical_p, "(0, 1]");
  }
  if (!(p.dry_multiplier >= 0 && p.dry_multiplier <= 100)) {
    return OutOfRange("dry_multiplier", p.dry_multiplier, "[0, 100]");
  }
  if (!(p.dry_base >= 1 && p.dry_base <= 10)) return OutOfRange("dry_base", p.dry_base, "[1, 10]");
  if (p.dry_allowed_length < 1 || p.dry_allowed_length > 1024) {
    return OutOfRange("dry_allowed_length", p.dry_allowed_length, "[1, 1024]");
  }
  if (p.dry_range < 0) return OutOfRange("dry_range", p.dry_range, "[0, 2147483647]");
  for (const auto& [field, tokens] : {std::pair("allowed_tokens", &p.allowed_tokens),
                                      std::pair("banned_tokens", &p.banned_tokens)}) {
    if (tokens->size() > kMaxListedTokens) {
      return InvalidField(StrCat("sampling.", field),
                          StrCat(tokens->size(), " tokens; at most ", kMaxListedTokens));
    }
  }
  if (p.logit_bias.size() > kMaxLogitBiases) {
    return InvalidField("sampling.logit_bias",
                        StrCat(p.logit_bias.size(), " tokens; at most ", kMaxLogitBiases));
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (!(std::fabs(bias) <= 100)) return OutOfRange("logit_bias", bias, "[-100, 100]");
  }
  return absl::OkStatus();
}

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> prompt, int vocab_size,
                 const std::vector<bool>* dry_breakers)
    : params_(params), rng_(params.seed), dry_breakers_(dry_breakers) {
  if (params_.dry_multiplier > 0) history_.assign(prompt.begin(), prompt.end());
  if (params_.repetition_penalty == 1.0f) return;
  seen_.resize(vocab_size, false);
  for (const TokenId token : prompt) See(token);
}

void Sampler::See(TokenId token) {
  if (seen_.empty() || seen_[token]) return;
  seen_[token] = true;
  seen_ids_.push_back(token);
}

bool Sampler::ChangesLogits() const {
  return !seen_ids_.empty() || !output_counts_.empty() || !params_.logit_bias.empty() ||
         params_.dry_multiplier > 0 || !params_.allowed_tokens.empty() ||
         !params_.banned_tokens.empty();
}

void Sampler::PenaliseRepetition(std::span<float> logits) const {
  std::span<const TokenId> text = history_;
  if (params_.dry_range > 0 && text.size() > static_cast<size_t>(params_.dry_range)) {
    text = text.last(params_.dry_range);
  }
  // What lies before a breaker is no part of a repetition.
  int longest = 0;
  for (auto it = text.rbegin(); it != text.rend(); ++it, ++longest) {
    if (dry_breakers_ != nullptr && (*dry_breakers_)[*it]) break;
  }
  if (longest < params_.dry_allowed_length) return;
  const std::vector<int> matches = SuffixMatches(text);
  std::unordered_map<TokenId, int> repeated;  // by the token that would go on with it
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const int length = std::min(matches[i], longest);
    if (length < params_.dry_allowed_length) continue;
    int& most = repeated[text[i + 1]];
    most = std::max(most, length);
  }
  for (const auto& [token, length] : repeated) {
    constexpr float kMost = 1e4f;  // far beyond any logit, and finite
    logits[token] -= std::min(
        kMost,
        params_.dry_multiplier *
            std::pow(params_.dry_base, static_cast<float>(length - params_.dry_allowed_length)));
  }
}

std::span<const float> Sampler::Adjust(std::span<const float> logits,
                                       std::span<const TokenId> forbidden) {
  if (!ChangesLogits() && forbidden.empty()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const TokenId id : seen_ids_) {
    float& logit = adjusted_[id];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  }
  for (const auto& [id, count] : output_counts_) {
    adjusted_[id] -=
        params_.presence_penalty + static_cast<float>(count) * params_.frequency_penalty;
  }
  if (params_.dry_multiplier > 0) PenaliseRepetition(adjusted_);
  for (const auto& [id, bias] : params_.logit_bias) adjusted_[id] += bias;
  if (!params_.allowed_tokens.empty()) {
    std::vector<std::pair<TokenId, float>> allowed;
    for (const TokenId id : params_.allowed_tokens) allowed.emplace_back(id, adjusted_[id]);
    std::fill(adjusted_.begin(), adjusted_.end(), -INFINITY);
    for (const auto& [id, logit] : allowed) adjusted_[id] = logit;
  }
  for (const TokenId id : params_.banned_tokens) adjusted_[id] = -INFINITY;
  for (const TokenId id : forbidden) adjusted_[id] = -INFINITY;
  return adjusted_;
}

absl::StatusOr<TokenId> Sampler::Sample(std::span<const float> raw_logits,
                                        std::span<const TokenId> forbidden) {
  const std::span<const float> logits = Adjust(raw_logits, forbidden);
  TokenId best = 0;
  bool finite = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    finite &= raw_logits[i] <= FLT_MAX;  // false for NaN and +infinity
    if (logits[i] > logits[best]) best = static_cast<TokenId>(i);
  }
  const bool any = logits[best] >= -FLT_MAX;
  if (!finite || (!any && logits.data() == raw_logits.data())) {
    return absl::InternalError("the model computed logits that are not finite");
  }
  if (!any) {
    return absl::FailedPreconditionError("no token may be sampled here: all are forbidden");
  }
  const TokenId token = params_.temperature == 0 ? best : Draw(logits, logits[best]);
  See(token);
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) ++output_counts_[token];
  if (params_.dry_multiplier > 0) history_.push_back(token);
  return token;
}

void Sampler::KeepTypical(float max_logit, double* total) {
  const double log_total = std::log(*total);
  const auto information = [&](const Candidate& c) {  // -log p
    return (max_logit - c.logit) / params_.temperature + log_total;
  };
  double entropy = 0;
  for (const Candidate& c : candidates_) entropy += c.weight / *total * information(c);
  // Furthest from the expected information first, so that the heap gives the most typical.
  const auto less_typical = [&](const Candidate& a, const Candidate& b) {
    const double distance_a = std::abs(information(a) - entropy);
    const double distance_b = std::abs(information(b) - entropy);
    return distance_a != distance_b ? distance_a > distance_b : Better(b, a);
  };
  KeepMass(params_.typical_p, less_typical, total);
}

void Sampler::KeepNucleus(double* total) {
  // Together, the tokens below this weight hold less than 1 - top_p: none of them is in the
  // nucleus.
  const double bound = (1.0 - params_.top_p) * *total / static_cast<double>(candidates_.size());
  std::erase_if(candidates_, [bound](const Candidate& c) { return c.weight < bound; });
  KeepMass(
      params_.top_p, [](const Candidate& a, const Candidate& b) { return Better(b, a); }, total);
}

template <typename Worse>
void Sampler::KeepMass(double share, Worse worse, double* total) {
  std::make_heap(candidates_.begin(), candidates_.end(), worse);
  const double target = share * *total;
  double mass = 0;
  auto heap_end = candidates_.end();
  while (heap_end != candidates_.begin() && mass < target) {
    std::pop_heap(candidates_.begin(), heap_end, worse);
    mass += (--heap_end)->weight;
  }
  candidates_.erase(candidates_.begin(), heap_end);
  *total = mass;
}

TokenId Sampler::Draw(std::span<const float> logits, float max_logit) {
  const float temperature = params_.temperature;
  // min-p compares with the largest probability, so it is a bound on logits and can go first.
  const float floor =
      params_.min_p > 0 ? max_logit + temperature * std::log(params_.min_p) : -FLT_MAX;
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
  if (params_.typical_p < 1) KeepTypical(max_logit, &total);
  if (params_.top_p < 1) KeepNucleus(&total);
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
