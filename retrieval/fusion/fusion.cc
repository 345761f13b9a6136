#include "retrieval/fusion/fusion.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/check.h"

namespace cairn::retrieval {
namespace {

using List = std::optional<std::vector<ScoredChunk>>;

std::vector<ListScore> Score(const std::vector<ScoredChunk>& list) {
  std::vector<double> scores;
  scores.reserve(list.size());
  for (const ScoredChunk& item : list) scores.push_back(item.score);
  const std::vector<double> normalised = MinMax(scores);
  std::vector<ListScore> out(list.size());
  for (size_t i = 0; i < list.size(); ++i)
    out[i] = {scores[i], static_cast<int>(i) + 1, normalised[i]};
  return out;
}

double FusedScore(const FusedChunk& item, const FusionOptions& options) {
  if (options.kind == FusionOptions::Kind::kRrf) {
    const auto part = [&](const std::optional<ListScore>& list) {
      return list ? 1 / (options.rrf_k + list->rank) : 0;
    };
    return part(item.vector) + part(item.lexical);
  }
  const auto normalised = [](const std::optional<ListScore>& list) {
    return list ? list->normalised : 0;
  };
  const double lexical_weight = 1 - options.vector_weight;
  return options.vector_weight * normalised(item.vector) +
         lexical_weight * normalised(item.lexical);
}

}  // namespace

std::vector<double> MinMax(std::span<const double> scores) {
  double low = 0, high = 0;
  bool any = false;
  for (const double score : scores) {
    if (!std::isfinite(score)) continue;
    low = any ? std::min(low, score) : score;
    high = any ? std::max(high, score) : score;
    any = true;
  }
  std::vector<double> out;
  out.reserve(scores.size());
  for (const double score : scores) {
    if (!std::isfinite(score)) {
      out.push_back(0);
    } else if (high == low) {
      out.push_back(1);
    } else {
      // Halves, since high - low of two huge numbers may overflow.
      out.push_back(std::clamp((score / 2 - low / 2) / (high / 2 - low / 2), 0.0, 1.0));
    }
  }
  return out;
}

std::vector<FusedChunk> Fuse(const List& lexical, const List& vector, const FusionOptions& options,
                             const ChunkIdFn& id) {
  CAIRN_CHECK(lexical || vector);
  std::vector<FusedChunk> out;
  std::unordered_map<uint64_t, size_t> places;
  const auto place = [&](const ScoredChunk& item) -> FusedChunk& {
    const uint64_t key = uint64_t{item.segment} << 32 | item.chunk;
    const auto [found, is_new] = places.emplace(key, out.size());
    if (is_new) out.push_back({item.segment, item.chunk});
    return out[found->second];
  };
  if (lexical) {
    const std::vector<ListScore> scores = Score(*lexical);
    for (size_t i = 0; i < scores.size(); ++i) place((*lexical)[i]).lexical = scores[i];
  }
  if (vector) {
    const std::vector<ListScore> scores = Score(*vector);
    for (size_t i = 0; i < scores.size(); ++i) place((*vector)[i]).vector = scores[i];
  }
  for (FusedChunk& item : out) {
    if (lexical && vector) {
      item.score = FusedScore(item, options);
    } else {
      item.score = item.lexical ? item.lexical->score : item.vector->score;
    }
  }
  std::sort(out.begin(), out.end(), [&](const FusedChunk& a, const FusedChunk& b) {
    if (a.score != b.score) return a.score > b.score;
    return id(a.segment, a.chunk) < id(b.segment, b.chunk);
  });
  return out;
}

}  // namespace cairn::retrieval
