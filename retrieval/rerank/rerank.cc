#include "retrieval/rerank/rerank.h"

#include "common/check.h"
#include "retrieval/fusion/fusion.h"

namespace cairn::retrieval {

std::vector<RerankedScore> Interpolate(std::span<const double> fused, std::span<const float> logits,
                                       double weight) {
  CAIRN_CHECK(logits.size() <= fused.size());
  const std::vector<double> normalised = MinMax(std::vector<double>(logits.begin(), logits.end()));
  std::vector<RerankedScore> out(fused.size());
  for (size_t i = 0; i < fused.size(); ++i) {
    if (i < logits.size()) out[i].normalised = normalised[i];
    out[i].score = weight * out[i].normalised + (1 - weight) * fused[i];
  }
  return out;
}

}  // namespace cairn::retrieval
