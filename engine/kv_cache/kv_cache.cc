#include "engine/kv_cache/kv_cache.h"

#include <sys/mman.h>

#include <algorithm>

#include "common/check.h"
#include "common/checked_math.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

int64_t HalvesPerToken(const kernels::HeadShape& heads) {
  return int64_t{heads.num_kv_heads} * heads.head_dim;
}

}  // namespace

int64_t KvCache::BytesForTokens(int64_t num_tokens, int num_layers,
                                const kernels::HeadShape& heads) {
  return num_tokens * num_layers * 2 * HalvesPerToken(heads) *
         static_cast<int64_t>(sizeof(uint16_t));
}

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(int num_layers, int num_blocks,
                                                         const kernels::HeadShape& heads) {
  const int64_t per_token = BytesForTokens(1, num_layers, heads);
  int64_t bytes = 0;
  if (!CheckedMul(per_token, int64_t{num_blocks} * kBlockTokens, &bytes)) {
    return absl::ResourceExhaustedError(StrCat("KV cache of ", num_blocks, " blocks at ", per_token,
                                               " bytes per token is too large"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(StrCat("KV cache: cannot reserve ", bytes, " bytes"));
  }
  return std::unique_ptr<KvCache>(
      new KvCache(static_cast<uint16_t*>(data), bytes, num_layers, num_blocks, heads));
}

KvCache::KvCache(uint16_t* data, int64_t bytes, int num_layers, int num_blocks,
                 const kernels::HeadShape& heads)
    : data_(data),
      bytes_(bytes),
      num_layers_(num_layers),
      heads_(heads),
      half_block_(kBlockTokens * HalvesPerToken(heads)),
      layer_stride_(num_blocks * 2 * half_block_) {
  CAIRN_CHECK(num_layers * layer_stride_ * static_cast<int64_t>(sizeof(uint16_t)) == bytes);
}

KvCache::~KvCache() { munmap(data_, bytes_); }

kernels::PagedKv KvCache::Layer(int layer) const {
  const uint16_t* k = data_ + layer * layer_stride_;
  return {.k = k, .v = k + half_block_, .block_stride = 2 * half_block_};
}

void KvCache::Store(int layer, BlockId block, int slot, const float* k, const float* v) {
  uint16_t* keys = data_ + layer * layer_stride_ + block * 2 * half_block_;
  kernels::StoreKeys(k, heads_, slot, keys);
  kernels::StoreValues(v, heads_, slot, keys + half_block_);
}

void KvCache::CopyBlock(BlockId from, BlockId to) {
  for (int layer = 0; layer < num_layers_; ++layer) {
    uint16_t* const blocks = data_ + layer * layer_stride_;
    std::copy_n(blocks + from * 2 * half_block_, 2 * half_block_, blocks + to * 2 * half_block_);
  }
}

}  // namespace cairn::engine
