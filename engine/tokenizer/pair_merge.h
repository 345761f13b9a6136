// MergePairs: the merge loop that byte-level BPE and SentencePiece BPE share.
//
// Symbols are merged two by two, best pair first, leftmost of equals, until no pair is left. A heap
// of candidates over a linked list: O(n log n) for any input. A candidate that a later merge has
// made obsolete stays in the heap and is recognised when it comes up.
#ifndef CAIRN_ENGINE_TOKENIZER_PAIR_MERGE_H_
#define CAIRN_ENGINE_TOKENIZER_PAIR_MERGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::engine {

struct Symbol {
  int32_t id = -1;      // -1: no token of its own
  uint32_t begin = 0;   // byte offset of the first byte in the text
  uint32_t length = 0;  // bytes; 0 once it was merged into its left neighbour
  int32_t prev = -1;    // index, -1 at the ends
  int32_t next = -1;
};

struct PairMerge {
  double priority;  // smaller is merged first
  int32_t id;       // of the merged symbol
};

// Links `symbols`, which lie in text order, and merges them in place. `find(left, right)` returns
// std::optional<PairMerge>.
template <typename Find>
void MergePairs(std::vector<Symbol>& symbols, const Find& find) {
  struct Candidate {
    double priority;
    int32_t left;
    int32_t right;
    uint32_t length;  // of both together when the candidate was made
    int32_t id;
    bool operator<(const Candidate& other) const {  // std heaps keep the largest on top
      return priority != other.priority ? priority > other.priority : left > other.left;
    }
  };
  std::vector<Candidate> heap;
  auto add = [&](int32_t left, int32_t right) {
    std::optional<PairMerge> merge = find(symbols[left], symbols[right]);
    if (!merge.has_value()) return false;
    heap.push_back(
        {merge->priority, left, right, symbols[left].length + symbols[right].length, merge->id});
    return true;
  };

  const int32_t count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].prev = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
    if (i > 0) add(i - 1, i);
  }
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    // Symbols only grow, so that an equal sum means that neither has changed.
    if (left.length == 0 || left.next != best.right || left.length + right.length != best.length) {
      continue;
    }
    left.id = best.id;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) {
      symbols[left.next].prev = best.left;
      if (add(best.left, left.next)) std::push_heap(heap.begin(), heap.end());
    }
    if (left.prev >= 0 && add(left.prev, best.left)) std::push_heap(heap.begin(), heap.end());
  }
}

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_PAIR_MERGE_H_
