// TokenTrie: a static byte trie over token texts, for prefix searches.
//
// Threads: immutable after construction.
#ifndef CAIRN_ENGINE_TOKENIZER_TOKEN_TRIE_H_
#define CAIRN_ENGINE_TOKENIZER_TOKEN_TRIE_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::engine {

class TokenTrie {
 public:
  // Empty texts are left out; of equal texts the first stays. The texts are not kept.
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> entries);
  TokenTrie() : TokenTrie(std::vector<std::pair<std::string_view, int32_t>>()) {}

  // Calls `visit(length, value)` for every entry that `text` begins with, shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, const Visit& visit) const {
    const Node* node = &nodes_[0];
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(*node, static_cast<uint8_t>(text[i]));
      if (node == nullptr) return;
      if (node->value >= 0) visit(i + 1, node->value);
    }
  }

  // The longest entry that `text` begins with: {length, value}, or {0, -1}.
  std::pair<size_t, int32_t> LongestPrefix(std::string_view text) const {
    std::pair<size_t, int32_t> found = {0, -1};
    ForEachPrefix(text, [&](size_t length, int32_t value) { found = {length, value}; });
    return found;
  }

 private:
  // Breadth-first order: the children of a node lie side by side, sorted by their byte.
  struct Node {
    uint32_t first_child = 0;
    int32_t value = -1;
    uint16_t num_children = 0;
    uint8_t byte = 0;
  };

  const Node* Child(const Node& node, uint8_t byte) const {
    const Node* begin = nodes_.data() + node.first_child;
    const Node* end = begin + node.num_children;
    const Node* child = std::lower_bound(
        begin, end, byte, [](const Node& child, uint8_t wanted) { return child.byte < wanted; });
    return child != end && child->byte == byte ? child : nullptr;
  }

  std::vector<Node> nodes_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKENIZER_TOKEN_TRIE_H_
