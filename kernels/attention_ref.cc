// All scores, then softmax, then the weighted sum: the definition of right for the other
// instruction sets.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention_kernels.h"
#include "kernels/half.h"

namespace cairn::kernels {
namespace {

// key(j, d) and value(j, d) read element d of token j.
template <typename Key, typename Value>
void Attend(const float* q, int64_t num_keys, int head_dim, float scale, Key key, Value value,
            float* out) {
  std::vector<float> scores(num_keys);
  for (int64_t j = 0; j < num_keys; ++j) {
    float dot = 0;
    for (int d = 0; d < head_dim; ++d) dot += q[d] * key(j, d);
    scores[j] = dot * scale;
  }
  const float max = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& s : scores) sum += s = std::exp(s - max);
  for (int d = 0; d < head_dim; ++d) {
    float acc = 0;
    for (int64_t j = 0; j < num_keys; ++j) acc += scores[j] * value(j, d);
    out[d] = acc / sum;
  }
}

void Paged(const PagedAttentionArgs& args, const AttentionTile& tile) {
  const HeadShape& shape = args.shape;
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    for (int head = tile.head_begin; head < tile.head_end; ++head) {
      const int kv_head = head / (shape.num_heads / shape.num_kv_heads);
      const auto block = [&](int64_t j) {
        return args.block_tables[row][j / kKvBlockSize] * args.kv.block_stride;
      };
      const int32_t first = FirstKey(args.positions[row], args.window);
      Attend(
          args.q + row * args.q_stride + head * shape.head_dim, args.positions[row] + 1 - first,
          shape.head_dim, args.scale,
          [&](int64_t i, int d) {
            const int64_t j = first + i;
            const int64_t at = (kv_head * shape.head_dim + d) * kKvBlockSize + j % kKvBlockSize;
            return HalfBitsToFloat(args.kv.k[block(j) + at]);
          },
          [&](int64_t i, int d) {
            const int64_t j = first + i;
            const int64_t at = (j % kKvBlockSize * shape.num_kv_heads + kv_head) * shape.head_dim;
            return HalfBitsToFloat(args.kv.v[block(j) + at + d]);
          },
          args.out + row * args.out_stride + head * shape.head_dim);
    }
  }
}

void Dense(const DenseAttentionArgs& args, const AttentionTile& tile, int64_t key_begin,
           int64_t key_end) {
  const HeadShape& shape = args.shape;
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    for (int head = tile.head_begin; head < tile.head_end; ++head) {
      const int64_t kv_at = head / (shape.num_heads / shape.num_kv_heads) * shape.head_dim;
      Attend(
          args.q + row * args.q_stride + head * shape.head_dim, key_end - key_begin, shape.head_dim,
          args.scale,
          [&](int64_t j, int d) { return args.k[(key_begin + j) * args.k_stride + kv_at + d]; },
          [&](int64_t j, int d) { return args.v[(key_begin + j) * args.v_stride + kv_at + d]; },
          args.out + row * args.out_stride + head * shape.head_dim);
    }
  }
}

}  // namespace

const AttentionKernels kAttentionScalar = {Paged, Dense};

}  // namespace cairn::kernels
