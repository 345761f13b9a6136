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
// are finite. They are normalised by min-max over themselves: against a sigmoid, that was as good
// or better at every weight from .2 to .7 on scifact training claims (.785 and .781 at .5, .775
// without reranking), and flatter.
//
// A normalised logit is never negative, so the candidates that were not scored stay, in order,
// behind the scored ones.
std::vector<RerankedScore> Interpolate(std::span<const double> fused, std::span<const float> logits,
                                       double weight);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_RERANK_RERANK_H_
