#include "engine/tokenizer/token_trie.h"

namespace cairn::engine {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Each node stands for the sorted entries [begin, end) that share its first `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  nodes_.emplace_back();
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Range range = ranges[n];
    size_t i = range.begin;
    while (i < range.end && entries[i].first.size() == range.depth) {
      if (range.depth > 0 && nodes_[n].value < 0) nodes_[n].value = entries[i].second;
      ++i;
    }
    nodes_[n].first_child = static_cast<uint32_t>(nodes_.size());
    while (i < range.end) {
      uint8_t byte = static_cast<uint8_t>(entries[i].first[range.depth]);
      size_t begin = i;
      while (i < range.end && static_cast<uint8_t>(entries[i].first[range.depth]) == byte) ++i;
      Node child;
      child.byte = byte;
      nodes_.push_back(child);
      ++nodes_[n].num_children;
      ranges.push_back({begin, i, range.depth + 1});
    }
  }
}

}  // namespace cairn::engine
