// Reranking: a cross-encoder's view of the best fused candidates, interpolated with theirs.
#ifndef CAIRN_RETRIEVAL_RERANK_RERANK_H_
#define CAIRN_RETRIEVAL_RERANK_RERANK_H_

#include <span>
#include <vector>

namespace cairn::retrieval {

struct RerankedScore {
  double normalised = 0;  // of the logit, [0, 1]; 0 for candidates that were not scored
  double score = 0;       // weight * normalised + (1 - weight) * fused
};

// `fused` are scores in [0, 1], best first; `logits` belong to the first logits.size() of them and
// are finite. Since a normalised logit is never negative, candidates that were not scored keep
// their order below those that were not better than they are: the scored ones can only gain on
// them.
std::vector<RerankedScore> Interpolate(std::span<const double> fused, std::span<const float> logits,
                                       double weight);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_RERANK_RERANK_H_
