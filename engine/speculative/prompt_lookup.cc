#include "engine/speculative/prompt_lookup.h"

#include <algorithm>

namespace cairn::engine {
namespace {

constexpr int kShort = 2;
constexpr int kLong = 4;
// Weight of one guess in the hit rate: an answer changes between quoting and own words within some
// ten tokens.
constexpr double kLearning = 0.2;

// Of the n tokens before `end`. A collision makes a bad guess, no worse.
uint64_t HashBefore(std::span<const TokenId> tokens, int end, int n) {
  uint64_t hash = static_cast<uint64_t>(n);
  for (int i = end - n; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

int BestDraftLength(double hit_rate, double row_share, int max) {
  int best = 0;
  double best_rate = 1;
  double expected = 1, chance = 1;
  for (int n = 1; n <= max; ++n) {
    chance *= hit_rate;
    expected += chance;
    const double rate = expected / (1 + n * row_share);
    if (rate > best_rate) {
      best_rate = rate;
      best = n;
    }
  }
  return best;
}

int PromptLookup::FindContinuation(std::span<const TokenId> tokens) const {
  const int size = static_cast<int>(tokens.size());
  for (const auto& [n, places] : {std::pair(kLong, &long_), std::pair(kShort, &short_)}) {
    if (size < n) continue;
    const auto found = places->find(HashBefore(tokens, size, n));
    if (found != places->end()) return found->second;
  }
  return -1;
}

void PromptLookup::Learn(std::span<const TokenId> tokens) {
  if (guess_from_ < 0) return;
  const int came = static_cast<int>(tokens.size()) - guessed_at_;
  for (int i = 0; i < std::min(came, std::max(num_drafted_, 1)); ++i) {
    const bool hit = tokens[guessed_at_ + i] == tokens[guess_from_ + i];
    hit_rate_ += kLearning * ((hit ? 1.0 : 0.0) - hit_rate_);
    if (!hit) break;
  }
}

std::vector<TokenId> PromptLookup::Draft(std::span<const TokenId> tokens, int max_tokens,
                                         double row_share) {
  const int size = static_cast<int>(tokens.size());
  Learn(tokens);
  // The end of the text itself is entered only once something follows it.
  for (; num_read_ < size - 1; ++num_read_) {
    const int end = num_read_ + 1;
    if (end >= kShort) short_[HashBefore(tokens, end, kShort)] = end;
    if (end >= kLong) long_[HashBefore(tokens, end, kLong)] = end;
  }
  guess_from_ = FindContinuation(tokens);
  guessed_at_ = size;
  num_drafted_ = 0;
  if (guess_from_ < 0) return {};
  num_drafted_ = BestDraftLength(hit_rate_, row_share, std::min(max_tokens, size - guess_from_));
  const auto begin = tokens.begin() + guess_from_;
  return {begin, begin + num_drafted_};
}

}  // namespace cairn::engine
