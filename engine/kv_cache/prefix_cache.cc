#include "engine/kv_cache/prefix_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"

namespace cairn::engine {

size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  return XXH3_64bits_withSeed(key.tokens.data(), sizeof(key.tokens),
                              reinterpret_cast<uintptr_t>(key.parent));
}

PrefixCache::Key PrefixCache::MakeKey(const void* parent, std::span<const int32_t> tokens) {
  Key key;
  key.parent = parent;
  std::copy_n(tokens.begin(), kBlockTokens, key.tokens.begin());
  return key;
}

PrefixCache::Node* PrefixCache::Find(const Key& key) const {
  const auto it = nodes_.find(key);
  return it == nodes_.end() ? nullptr : it->second.get();
}

void PrefixCache::Touch(Node* deepest) {
  for (Node* node = deepest; node != nullptr; node = node->parent) {
    uses_.splice(uses_.end(), uses_, node->use);
  }
}

BlockTable PrefixCache::Match(std::string_view salt, std::span<const int32_t> tokens) {
  BlockTable table;
  const auto root = roots_.find(std::string(salt));
  if (root == roots_.end()) return table;
  std::vector<BlockId> blocks;
  const void* parent = &root->second;
  Node* deepest = nullptr;
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens)) {
    Node* const node = Find(MakeKey(parent, tokens));
    if (node == nullptr) break;
    blocks.push_back(node->block.blocks()[0]);
    parent = deepest = node;
  }
  Touch(deepest);
  return pool_.Share(blocks);
}

void PrefixCache::Insert(std::string_view salt, std::span<const int32_t> tokens,
                         BlockTable* table) {
  const size_t num_blocks = tokens.size() / kBlockTokens;
  CAIRN_CHECK(tokens.size() % kBlockTokens == 0 && num_blocks <= table->blocks().size());
  if (num_blocks == 0) return;
  const auto root = roots_.try_emplace(std::string(salt)).first;
  const void* parent = &root->second;
  Node* deepest = nullptr;
  for (size_t i = 0; i < num_blocks; ++i) {
    const Key key = MakeKey(parent, tokens.subspan(i * kBlockTokens, kBlockTokens));
    Node* node = Find(key);
    if (node == nullptr) {
      auto fresh = std::make_unique<Node>();
      node = fresh.get();
      node->key = key;
      node->parent = deepest;
      node->salt = root->first;
      node->block = pool_.Share(table->blocks().subspan(i, 1));
      node->use = uses_.insert(uses_.end(), node);
      ++(deepest == nullptr ? root->second.children : deepest->children);
      nodes_.emplace(key, std::move(fresh));
    } else if (node->block.blocks()[0] != table->blocks()[i]) {
      table->Replace(i, pool_.Share(node->block.blocks()));
    }
    parent = deepest = node;
  }
  Touch(deepest);
}

int PrefixCache::num_idle() const {
  return static_cast<int>(std::count_if(uses_.begin(), uses_.end(), [this](const Node* node) {
    return pool_.ref_count(node->block.blocks()[0]) == 1;
  }));
}

bool PrefixCache::Reclaim(int64_t num_free) {
  if (num_free <= pool_.num_free()) return true;
  if (num_free > pool_.num_free() + num_idle()) return false;
  for (auto it = uses_.begin(); pool_.num_free() < num_free;) {
    Node* const node = *it++;
    // Whoever holds a block holds its parents too, so what is passed over here keeps no idle one.
    if (pool_.ref_count(node->block.blocks()[0]) == 1) Remove(node);
  }
  return true;
}

void PrefixCache::Remove(Node* node) {
  CAIRN_CHECK(node->children == 0);
  if (node->parent != nullptr) {
    --node->parent->children;
  } else {
    const auto root = roots_.find(std::string(node->salt));
    if (--root->second.children == 0) roots_.erase(root);
  }
  uses_.erase(node->use);
  const Key key = node->key;
  nodes_.erase(key);
}

void PrefixCache::Clear() {
  uses_.clear();
  nodes_.clear();
  roots_.clear();
}

}  // namespace cairn::engine
