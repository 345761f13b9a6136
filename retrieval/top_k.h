// The k best chunks of a scan over segments: score descending, equal scores by chunk id ascending,
// so that the order depends on neither the segments nor the threads.
#ifndef CAIRN_RETRIEVAL_TOP_K_H_
#define CAIRN_RETRIEVAL_TOP_K_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::retrieval {

struct ScoredChunk {
  uint32_t segment = 0;
  uint32_t chunk = 0;  // in the segment
  double score = 0;
};

// The chunk id behind a (segment, chunk). Asked for ties only.
using ChunkIdFn = std::function<std::string_view(uint32_t segment, uint32_t chunk)>;

// Thread-compatible.
class TopK {
 public:
  // REQUIRES: k >= 1.
  TopK(size_t k, ChunkIdFn id) : k_(k), id_(std::move(id)) {}

  // A chunk that scores less cannot enter; one that scores the same may.
  double threshold() const {
    return heap_.size() < k_ ? -std::numeric_limits<double>::infinity() : heap_.front().score;
  }

  void Offer(const ScoredChunk& candidate) {
    const auto better = [this](const ScoredChunk& a, const ScoredChunk& b) { return Better(a, b); };
    if (heap_.size() < k_) {
      heap_.push_back(candidate);
      std::push_heap(heap_.begin(), heap_.end(), better);  // front = the worst
    } else if (Better(candidate, heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), better);
      heap_.back() = candidate;
      std::push_heap(heap_.begin(), heap_.end(), better);
    }
  }

  // Best first; leaves nothing behind.
  std::vector<ScoredChunk> Take() {
    std::sort(heap_.begin(), heap_.end(),
              [this](const ScoredChunk& a, const ScoredChunk& b) { return Better(a, b); });
    return std::move(heap_);
  }

 private:
  bool Better(const ScoredChunk& a, const ScoredChunk& b) const {
    if (a.score != b.score) return a.score > b.score;
    return id_(a.segment, a.chunk) < id_(b.segment, b.chunk);
  }

  size_t k_;
  ChunkIdFn id_;
  std::vector<ScoredChunk> heap_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TOP_K_H_
