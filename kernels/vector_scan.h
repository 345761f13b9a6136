// Exact nearest neighbours by inner product over dense rows: the brute-force side of vector search.
//
// Rows are [n, dim] F32, dense. For cosine similarity, store rows and queries with unit length.
// Each score is computed in a fixed order that depends on dim alone, so a row scores the same in
// every batch. Dispatched at run time (kernels/cpu.h); thread-safe.
#ifndef CAIRN_KERNELS_VECTOR_SCAN_H_
#define CAIRN_KERNELS_VECTOR_SCAN_H_

#include <cstdint>
#include <vector>

#include "common/worker_pool.h"

namespace cairn::kernels {

struct ScoredRow {
  int64_t row = 0;
  float score = 0;
};

// scores [num_queries, n] = queries [num_queries, dim] * rows [n, dim]^T.
void InnerProducts(const float* queries, int64_t num_queries, const float* rows, int64_t n,
                   int64_t dim, float* scores);

// The k best rows for each query, best first, equal scores by ascending row; fewer than k when
// fewer are eligible. `eligible`, if not null, holds one bit a row (row r is bit r % 64 of word r /
// 64); only rows whose bit is set can be returned. A NaN score ranks below every other.
std::vector<std::vector<ScoredRow>> TopKInnerProduct(const float* queries, int64_t num_queries,
                                                     const float* rows, int64_t n, int64_t dim,
                                                     int64_t k, const uint64_t* eligible,
                                                     WorkerPool& pool);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_VECTOR_SCAN_H_
