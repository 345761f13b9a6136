// Exact nearest chunks by cosine: every eligible vector is scored.
#ifndef CAIRN_RETRIEVAL_VECTOR_FLAT_SCAN_H_
#define CAIRN_RETRIEVAL_VECTOR_FLAT_SCAN_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/context.h"
#include "common/status.h"
#include "retrieval/bitmap.h"
#include "retrieval/top_k.h"

namespace cairn::retrieval {

// Scales each row of `rows` [n, dimension] to length 1. INVALID_ARGUMENT, naming the row, for NaN,
// infinity or a length of zero (also one that underflows).
absl::Status NormalizeRows(std::span<float> rows, size_t dimension);

struct VectorView {
  const float* rows = nullptr;  // [num_rows, dimension], unit length
  size_t num_rows = 0;
  const Bitmap* eligible = nullptr;  // [num_rows]; null = all
};

// The `k` eligible rows with the largest cosine. `query` [dimension] has unit length. Stops with
// the context's status when it ends.
absl::StatusOr<std::vector<ScoredChunk>> ScanVectors(const RequestContext& context,
                                                     std::span<const float> query,
                                                     std::span<const VectorView> views, size_t k,
                                                     const ChunkIdFn& id);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_VECTOR_FLAT_SCAN_H_
