#include "kernels/vector_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/matmul_kernels.h"

namespace cairn::kernels {
namespace {

constexpr int64_t kRowsPerTask = 8192;  // 12 MiB of 384-d vectors: a millisecond or so
constexpr int64_t kRowsPerChunk = 128;  // scored, then offered to the heaps
constexpr int64_t kQueriesPerChunk = 64;

// Best first: a strict order over distinct rows, so that the k best are the same however the work
// is split.
bool Better(const ScoredRow& a, const ScoredRow& b) {
  return a.score != b.score ? a.score > b.score : a.row < b.row;
}

// The k best of what was offered, worst of them on top.
class TopK {
 public:
  explicit TopK(int64_t k) : k_(k) {}

  void Offer(ScoredRow candidate) {
    if (std::isnan(candidate.score)) candidate.score = -std::numeric_limits<float>::infinity();
    if (static_cast<int64_t>(heap_.size()) == k_) {
      if (!Better(candidate, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), Better);
      heap_.pop_back();
    }
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), Better);
  }
  std::vector<ScoredRow> Take() {
    std::sort(heap_.begin(), heap_.end(), Better);
    return std::move(heap_);
  }
  const std::vector<ScoredRow>& unsorted() const { return heap_; }

 private:
  int64_t k_;
  std::vector<ScoredRow> heap_;
};

// scores [num_queries, y_stride] of rows [begin, end).
void Score(const float* queries, int64_t num_queries, const float* rows, int64_t begin, int64_t end,
           int64_t dim, float* scores, int64_t y_stride) {
  static const MatMulKernels& kernels = MatMulKernelsOf(ActiveIsa());
  MatMulPart part;
  part.w = {DType::kF32, end - begin, dim, reinterpret_cast<const uint8_t*>(rows + begin * dim)};
  part.in.x = queries;
  part.in.stride = dim;
  part.y = scores;
  part.y_stride = y_stride;
  part.panel_end = (end - begin + kPanelRows - 1) / kPanelRows;
  part.token_end = num_queries;
  kernels.multiply(part);
}

bool IsEligible(const uint64_t* eligible, int64_t row) {
  return eligible == nullptr || (eligible[row / 64] >> (row % 64) & 1) != 0;
}

}  // namespace

void InnerProducts(const float* queries, int64_t num_queries, const float* rows, int64_t n,
                   int64_t dim, float* scores) {
  Score(queries, num_queries, rows, 0, n, dim, scores, n);
}

std::vector<std::vector<ScoredRow>> TopKInnerProduct(const float* queries, int64_t num_queries,
                                                     const float* rows, int64_t n, int64_t dim,
                                                     int64_t k, const uint64_t* eligible,
                                                     WorkerPool& pool) {
  std::vector<std::vector<ScoredRow>> results(num_queries);
  if (k <= 0 || n <= 0 || num_queries <= 0) return results;
  const int64_t num_tasks = (n + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<std::vector<TopK>> parts(num_tasks);
  pool.ParallelFor(num_tasks, [&](int64_t task) {
    std::vector<TopK>& best = parts[task];
    best.assign(num_queries, TopK(k));
    std::vector<float> scores(kQueriesPerChunk * kRowsPerChunk);
    const int64_t task_end = std::min(n, (task + 1) * kRowsPerTask);
    for (int64_t begin = task * kRowsPerTask; begin < task_end; begin += kRowsPerChunk) {
      const int64_t end = std::min(begin + kRowsPerChunk, task_end);
      int64_t first = begin, last = end;  // the eligible ones
      while (first < last && !IsEligible(eligible, first)) ++first;
      while (first < last && !IsEligible(eligible, last - 1)) --last;
      if (first == last) continue;
      for (int64_t q0 = 0; q0 < num_queries; q0 += kQueriesPerChunk) {
        const int64_t q_count = std::min(kQueriesPerChunk, num_queries - q0);
        Score(queries + q0 * dim, q_count, rows, first, last, dim, scores.data(), kRowsPerChunk);
        for (int64_t q = 0; q < q_count; ++q) {
          for (int64_t row = first; row < last; ++row) {
            if (!IsEligible(eligible, row)) continue;
            best[q0 + q].Offer({row, scores[q * kRowsPerChunk + row - first]});
          }
        }
      }
    }
  });
  for (int64_t q = 0; q < num_queries; ++q) {
    TopK best(k);
    for (const std::vector<TopK>& part : parts) {
      for (const ScoredRow& row : part[q].unsorted()) best.Offer(row);
    }
    results[q] = best.Take();
  }
  return results;
}

}  // namespace cairn::kernels
