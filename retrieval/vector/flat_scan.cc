#include "retrieval/vector/flat_scan.h"

#include <algorithm>
#include <cmath>

#include "common/strings.h"
#include "kernels/vector_scan.h"

namespace cairn::retrieval {
namespace {

// Rows scored between two looks at the context and the heap: 512 rows of 384 floats are 768 KiB,
// near the L2 cache.
constexpr size_t kBlockRows = 512;

}  // namespace

absl::Status NormalizeRows(std::span<float> rows, size_t dimension) {
  for (size_t begin = 0, row = 0; begin < rows.size(); begin += dimension, ++row) {
    const std::span<float> values = rows.subspan(begin, dimension);
    double sum = 0;
    for (const float v : values) sum += static_cast<double>(v) * v;
    if (!std::isfinite(sum))
      return absl::InvalidArgumentError(StrCat("vector ", row, " is not finite"));
    if (sum < 1e-60) return absl::InvalidArgumentError(StrCat("vector ", row, " has length zero"));
    const double scale = 1 / std::sqrt(sum);
    for (float& v : values) v = static_cast<float>(v * scale);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ScoredChunk>> ScanVectors(const RequestContext& context,
                                                     std::span<const float> query,
                                                     std::span<const VectorView> views, size_t k,
                                                     const ChunkIdFn& id) {
  const auto dimension = static_cast<int64_t>(query.size());
  TopK top(k, id);
  std::vector<float> scores(kBlockRows);
  for (uint32_t v = 0; v < views.size(); ++v) {
    const VectorView& view = views[v];
    for (size_t begin = 0; begin < view.num_rows; begin += kBlockRows) {
      CAIRN_RETURN_IF_ERROR(context.Check());
      const size_t end = std::min(begin + kBlockRows, view.num_rows);
      size_t eligible = end - begin;
      if (view.eligible != nullptr) {
        eligible = 0;
        for (size_t row = begin; row < end; ++row) eligible += view.eligible->Get(row);
      }
      if (eligible == 0) continue;
      // A filter that leaves few: those rows alone.
      const bool dense = eligible * 4 >= end - begin;
      if (dense)
        kernels::InnerProducts(query.data(), 1, view.rows + begin * dimension, end - begin,
                               dimension, scores.data());
      for (size_t row = begin; row < end; ++row) {
        if (view.eligible != nullptr && !view.eligible->Get(row)) continue;
        float& score = scores[row - begin];
        if (!dense)
          kernels::InnerProducts(query.data(), 1, view.rows + row * dimension, 1, dimension,
                                 &score);
        if (score >= top.threshold()) top.Offer({v, static_cast<uint32_t>(row), score});
      }
    }
  }
  return top.Take();
}

}  // namespace cairn::retrieval
