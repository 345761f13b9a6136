// PrefixCache remembers which KV blocks hold which tokens, so that a request that begins like an
// earlier one does not compute that beginning again.
//
// A tree of whole blocks: a child continues its parent by kBlockTokens tokens. A block is found by
// its parent and its own tokens, all compared, so that no collision of hashes can serve the keys
// and values of another text. The roots are salts: requests with different salts (tenants) never
// share.
//
// The cache holds one reference to each of its blocks. A block that nobody else holds is idle and
// can be reclaimed, the least recently used first and children before their parents.
//
// Threads: thread-compatible; the step loop is the only caller.
#ifndef CAIRN_ENGINE_KV_CACHE_PREFIX_CACHE_H_
#define CAIRN_ENGINE_KV_CACHE_PREFIX_CACHE_H_

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/kv_cache/block_pool.h"

namespace cairn::engine {

class PrefixCache {
 public:
  explicit PrefixCache(BlockPool* pool) : pool_(*pool) {}  // `pool` outlives the cache

  // The blocks of the longest known beginning of `tokens`, in whole blocks.
  BlockTable Match(std::string_view salt, std::span<const int32_t> tokens);
  // Remembers that the first blocks of `table` hold `tokens`. Where other blocks are known to hold
  // the same (two requests computed them side by side), the table takes those and gives its own
  // back. REQUIRES: tokens.size() is a multiple of kBlockTokens and within the table.
  void Insert(std::string_view salt, std::span<const int32_t> tokens, BlockTable* table);
  // Gives idle blocks back until the pool has `num_free` free ones. False, and nothing is given
  // back, when there are not enough.
  bool Reclaim(int64_t num_free);
  // Gives all blocks back.
  void Clear();

  int num_blocks() const { return static_cast<int>(nodes_.size()); }
  int num_idle() const;

 private:
  struct Node;
  struct Key {
    const void* parent;  // a node or a root: at its address as long as it has children
    std::array<int32_t, kBlockTokens> tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Root {
    int children = 0;
  };
  struct Node {
    Key key;
    Node* parent = nullptr;  // null below a root
    std::string_view salt;   // of the root
    int children = 0;
    BlockTable block;  // one
    std::list<Node*>::iterator use;
  };

  static Key MakeKey(const void* parent, std::span<const int32_t> tokens);
  Node* Find(const Key& key) const;
  // Marks a path as used now, `deepest` first: so a child is never behind its parent in uses_.
  void Touch(Node* deepest);
  void Remove(Node* node);

  BlockPool& pool_;
  std::unordered_map<std::string, Root> roots_;
  std::unordered_map<Key, std::unique_ptr<Node>, KeyHash> nodes_;
  std::list<Node*> uses_;  // least recently used first
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_KV_CACHE_PREFIX_CACHE_H_
