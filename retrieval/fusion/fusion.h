// One list out of two. Formulas: FusionOptions in retrieval/query/search.h.
//
// Both kinds keep the order of each list among the items that only this list has: what is at rank N
// of one list is never kept while something before it, which the other list lacks too, is not.
#ifndef CAIRN_RETRIEVAL_FUSION_FUSION_H_
#define CAIRN_RETRIEVAL_FUSION_FUSION_H_

#include <optional>
#include <span>
#include <vector>

#include "retrieval/query/search.h"
#include "retrieval/top_k.h"

namespace cairn::retrieval {

// (score - lowest) / (highest - lowest), clamped to [0, 1]. When all are equal, as for a single
// one, each is 1. Scores that are not finite give 0 and do not shape the others.
std::vector<double> MinMax(std::span<const double> scores);

struct FusedChunk {
  uint32_t segment = 0;
  uint32_t chunk = 0;
  std::optional<ListScore> lexical, vector;
  double score = 0;
};

// Lists are best first, without repeats. Returns all their chunks, by score descending, then id
// ascending. Weights follow the options; a missing list (nullopt: not searched) leaves the other's
// own scores: score = the list's score. REQUIRES: at least one list.
std::vector<FusedChunk> Fuse(const std::optional<std::vector<ScoredChunk>>& lexical,
                             const std::optional<std::vector<ScoredChunk>>& vector,
                             const FusionOptions& options, const ChunkIdFn& id);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_FUSION_FUSION_H_
