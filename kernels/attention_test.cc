// Every instruction set against softmax(scale * q k^T) v in double.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attention_dispatch.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "kernels/testing/emulated_avx512_tables.h"
#include "kernels/testing/isas.h"
#include "kernels/testing/random_weights.h"

namespace cairn::kernels {
namespace {

struct Case {
  std::string isa;
  const AttentionKernels* kernels;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (Isa isa : AvailableIsas()) {
    cases.push_back({std::string(IsaName(isa)), &AttentionKernelsOf(isa)});
  }
  cases.push_back({"emulated_avx512", &kAttentionEmulatedAvx512});
  return cases;
}

constexpr HeadShape kShapes[] = {{1, 1, 8},    {4, 2, 24},  {9, 3, 64},
                                 {12, 2, 128}, {40, 2, 32}, {2, 1, 256}};

// keys[j], values[j] [head_dim] of one KV head. The scores are off by about head_dim * 2^-24 *
// |q||k| * scale, which exp turns into a relative error of the weights; the weighted sum adds as
// many roundings as there are keys.
void ExpectAttention(const float* q, const std::vector<const float*>& keys,
                     const std::vector<const float*>& values, int head_dim, float scale,
                     const float* out) {
  std::vector<double> p;
  double max = -INFINITY, sum = 0, norm = 0, largest_value = 0;
  for (const float* key : keys) {
    double dot = 0, magnitude = 0;
    for (int d = 0; d < head_dim; ++d) {
      dot += double{q[d]} * key[d];
      magnitude += std::fabs(double{q[d]} * key[d]);
    }
    p.push_back(dot * scale);
    max = std::max(max, p.back());
    norm = std::max(norm, magnitude * scale);
  }
  for (double& s : p) sum += s = std::exp(s - max);
  for (const float* value : values) {
    for (int d = 0; d < head_dim; ++d)
      largest_value = std::max<double>(largest_value, std::fabs(value[d]));
  }
  const double slack =
      largest_value * (2 * (head_dim + 4) * norm + 2.0 * keys.size() + 16) * 0x1p-24;
  for (int d = 0; d < head_dim; ++d) {
    double want = 0;
    for (size_t j = 0; j < p.size(); ++j) want += p[j] * values[j][d] / sum;
    ASSERT_NEAR(out[d], want, slack) << "d " << d << " keys " << keys.size();
  }
}

// Sequences of given lengths in a pool of shuffled blocks; unwritten slots hold NaN.
class Cache {
 public:
  Cache(const HeadShape& shape, const std::vector<int>& lengths, std::mt19937* rng)
      : shape_(shape) {
    const int64_t token = int64_t{shape.num_kv_heads} * shape.head_dim;
    const int64_t block = token * kKvBlockSize;
    std::vector<int32_t> ids;
    for (int length : lengths) {
      for (int i = 0; i < (length + kKvBlockSize - 1) / kKvBlockSize; ++i) {
        ids.push_back(static_cast<int32_t>(ids.size()));
      }
    }
    std::shuffle(ids.begin(), ids.end(), *rng);
    block_stride_ = block + 32;  // a gap, as when layers stand between
    k_.assign(ids.size() * block_stride_, 0x7E00);
    v_ = k_;
    size_t next = 0;
    for (int length : lengths) {
      tables_.emplace_back();
      keys_.push_back(RandomFloats(length * token, rng));
      values_.push_back(RandomFloats(length * token, rng));
      for (int j = 0; j < length; ++j) {
        if (j % kKvBlockSize == 0) tables_.back().push_back(ids[next++]);
        const int64_t at = tables_.back().back() * block_stride_;
        const int slot = j % kKvBlockSize;
        float* key = &keys_.back()[j * token];
        float* value = &values_.back()[j * token];
        StoreKeys(key, shape, slot, &k_[at]);
        StoreValues(value, shape, slot, &v_[at]);
        // The F32 copies become equal to what was stored.
        for (int64_t i = 0; i < token; ++i) {
          key[i] = HalfBitsToFloat(k_[at + i * kKvBlockSize + slot]);
          value[i] = HalfBitsToFloat(v_[at + slot * token + i]);
        }
      }
    }
  }

  PagedKv view() const { return {k_.data(), v_.data(), block_stride_}; }
  const int32_t* table(int s) const { return tables_[s].data(); }
  std::vector<const float*> Keys(int s, int count, int kv_head) const {
    return Rows(keys_[s], count, kv_head);
  }
  std::vector<const float*> Values(int s, int count, int kv_head) const {
    return Rows(values_[s], count, kv_head);
  }

 private:
  std::vector<const float*> Rows(const std::vector<float>& x, int count, int kv_head) const {
    std::vector<const float*> rows;
    for (int j = 0; j < count; ++j) {
      rows.push_back(&x[(int64_t{j} * shape_.num_kv_heads + kv_head) * shape_.head_dim]);
    }
    return rows;
  }

  HeadShape shape_;
  int64_t block_stride_;
  std::vector<uint16_t> k_, v_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::vector<float>> keys_, values_;
};

class AttentionTest : public testing::TestWithParam<Case> {
 protected:
  std::mt19937 rng_{1};
  WorkerPool pool_{2};
};

// A batch as the engine makes it: a prefill chunk, decoding rows, a first token. `window` as in the
// arguments.
void CheckRaggedBatch(const AttentionKernels& kernels, int window, std::mt19937* rng,
                      WorkerPool& pool) {
  for (const HeadShape& shape : kShapes) {
    const Cache cache(shape, {45, 100, 1, 16, 17}, rng);
    struct Row {
      int sequence, position;
    };
    std::vector<Row> rows;
    for (int i = 20; i < 45; ++i) rows.push_back({0, i});
    for (Row row : {Row{1, 99}, Row{2, 0}, Row{3, 15}, Row{4, 16}, Row{1, 3}}) rows.push_back(row);

    const int64_t width = int64_t{shape.num_heads} * shape.head_dim, stride = width + 7;
    const std::vector<float> q = RandomFloats(rows.size() * stride, rng);
    std::vector<float> out(rows.size() * stride, 5.0f);
    std::vector<int32_t> positions;
    std::vector<const int32_t*> tables;
    for (const Row& row : rows) {
      positions.push_back(row.position);
      tables.push_back(cache.table(row.sequence));
    }
    PagedAttentionArgs args;
    args.shape = shape;
    args.kv = cache.view();
    args.n = static_cast<int64_t>(rows.size());
    args.q = q.data();
    args.q_stride = args.out_stride = stride;
    args.positions = positions.data();
    args.block_tables = tables.data();
    args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    args.window = window;
    args.out = out.data();
    PagedAttentionWith(kernels, args, pool);

    const int group = shape.num_heads / shape.num_kv_heads;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int h = 0; h < shape.num_heads; ++h) {
        const int count = rows[i].position + 1;
        std::vector<const float*> keys = cache.Keys(rows[i].sequence, count, h / group);
        std::vector<const float*> values = cache.Values(rows[i].sequence, count, h / group);
        const int unseen = window > 0 ? std::max(0, count - window) : 0;
        keys.erase(keys.begin(), keys.begin() + unseen);
        values.erase(values.begin(), values.begin() + unseen);
        ExpectAttention(&q[i * stride + h * shape.head_dim], keys, values, shape.head_dim,
                        args.scale, &out[i * stride + h * shape.head_dim]);
      }
      for (int64_t j = width; j < stride; ++j) ASSERT_EQ(out[i * stride + j], 5.0f);
    }

    // Each row alone gives the same bits.
    for (int64_t i = 0; i < args.n; ++i) {
      std::vector<float> alone(width);
      PagedAttentionArgs one = args;
      one.n = 1;
      one.q += i * stride;
      one.positions += i;
      one.block_tables += i;
      one.out = alone.data();
      PagedAttentionWith(kernels, one, pool);
      ASSERT_EQ(std::memcmp(alone.data(), &out[i * stride], width * sizeof(float)), 0) << i;
    }
  }
}

TEST_P(AttentionTest, PagedRaggedBatch) { CheckRaggedBatch(*GetParam().kernels, 0, &rng_, pool_); }

// Windows shorter than a vector, of whole steps, across steps, and longer than all sequences.
TEST_P(AttentionTest, PagedRaggedBatchWithAWindow) {
  for (const int window : {1, 5, 16, 32, 33, 99, 1000}) {
    SCOPED_TRACE(window);
    CheckRaggedBatch(*GetParam().kernels, window, &rng_, pool_);
  }
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  const HeadShape shape = {1, 1, 8};
  const Cache cache(shape, {40}, &rng_);
  std::vector<float> q(8, 3e4f), out(8);
  const int32_t position = 39;
  const int32_t* table = cache.table(0);
  PagedAttentionArgs args = {shape, cache.view(), 1,          q.data(), 8, &position, &table,
                             0,     1.0f,         out.data(), 8};
  PagedAttentionWith(*GetParam().kernels, args, pool_);
  // One key wins outright.
  const std::vector<const float*> keys = cache.Keys(0, 40, 0), values = cache.Values(0, 40, 0);
  size_t best = 0;
  const auto sum = [](const float* k) { return std::accumulate(k, k + 8, 0.0); };
  for (size_t j = 1; j < keys.size(); ++j) {
    if (sum(keys[j]) > sum(keys[best])) best = j;
  }
  for (int d = 0; d < 8; ++d) EXPECT_NEAR(out[d], values[best][d], 1e-5);
}

// One query and head in `every` is held against the definition.
void CheckDense(const AttentionKernels& kernels, const HeadShape& shape,
                const std::vector<int32_t>& offsets, int every, WorkerPool& pool,
                std::mt19937* rng) {
  const int64_t total = offsets.back(), width = int64_t{shape.num_heads} * shape.head_dim;
  const int64_t kv_width = int64_t{shape.num_kv_heads} * shape.head_dim;
  const std::vector<float> q = RandomFloats(total * width, rng);
  const std::vector<float> k = RandomFloats(total * kv_width, rng);
  const std::vector<float> v = RandomFloats(total * kv_width, rng);
  std::vector<float> out(total * width);
  DenseAttentionArgs args;
  args.shape = shape;
  args.num_sequences = static_cast<int>(offsets.size()) - 1;
  args.offsets = offsets.data();
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.q_stride = args.out_stride = width;
  args.k_stride = args.v_stride = kv_width;
  args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  args.out = out.data();
  DenseAttentionWith(kernels, args, pool);
  const int group = shape.num_heads / shape.num_kv_heads;
  int64_t next = 0;
  for (int s = 0; s < args.num_sequences; ++s) {
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      for (int h = 0; h < shape.num_heads; ++h) {
        if (next++ % every != 0) continue;
        std::vector<const float*> keys, values;
        for (int64_t j = offsets[s]; j < offsets[s + 1]; ++j) {
          keys.push_back(&k[j * kv_width + h / group * shape.head_dim]);
          values.push_back(&v[j * kv_width + h / group * shape.head_dim]);
        }
        ExpectAttention(&q[i * width + h * shape.head_dim], keys, values, shape.head_dim,
                        args.scale, &out[i * width + h * shape.head_dim]);
      }
    }
    // The sequence alone, cut into other tiles, gives the same bits.
    const std::vector<int32_t> alone_offsets = {0, offsets[s + 1] - offsets[s]};
    std::vector<float> alone(alone_offsets[1] * width);
    DenseAttentionArgs one = args;
    one.num_sequences = 1;
    one.offsets = alone_offsets.data();
    one.q += offsets[s] * width;
    one.k += offsets[s] * kv_width;
    one.v += offsets[s] * kv_width;
    one.out = alone.data();
    DenseAttentionWith(kernels, one, pool);
    ASSERT_EQ(std::memcmp(alone.data(), &out[offsets[s] * width], alone.size() * sizeof(float)), 0)
        << "sequence " << s;
  }
}

TEST_P(AttentionTest, DenseRaggedSequences) {
  for (const HeadShape& shape : kShapes) {
    CheckDense(*GetParam().kernels, shape, {0, 1, 1, 34, 50, 119, 300}, 1, pool_, &rng_);
  }
}

// Steps of 512 keys, and rows enough for the largest tiles.
TEST_P(AttentionTest, DenseLongSequences) {
  CheckDense(*GetParam().kernels, {4, 4, 32}, {0, 512, 1200}, 97, pool_, &rng_);
  CheckDense(*GetParam().kernels, {2, 1, 72}, {0, 700, 1000}, 31, pool_, &rng_);
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.isa; });

}  // namespace
}  // namespace cairn::kernels
