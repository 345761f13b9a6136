#include "engine/runner/runner.h"

#include <algorithm>
#include <array>

#include "common/check.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/ops.h"

namespace cairn::engine {
namespace {

// Rows per task of the element-wise operations: at some ten thousand floats a task, claiming one
// costs nothing.
constexpr int64_t kRowsPerTask = 8;

const float* BiasOrNull(const std::vector<float>& bias) {
  return bias.empty() ? nullptr : bias.data();
}

}  // namespace

Runner::Runner(const ModelWeights* weights, KvCache* cache, WorkerPool* pool, int max_tokens,
               int max_logit_rows)
    : weights_(*weights), config_(weights->config()), cache_(*cache), pool_(*pool) {
  const int64_t n = max_tokens;
  positions_.resize(n);
  block_tables_.resize(n);
  rope_tables_.resize(config_.ropes.size());
  for (HugeVector<float>& table : rope_tables_) table.resize(n * config_.ropes[0].rotary_dim);
  hidden_.resize(n * config_.embedding_dim);
  normed_.resize(n * config_.embedding_dim);
  projected_.resize(n * config_.embedding_dim);
  q_.resize(n * config_.q_dim());
  attention_.resize(n * config_.q_dim());
  k_.resize(n * config_.kv_dim());
  v_.resize(n * config_.kv_dim());
  gate_.resize(n * config_.feed_forward_dim);
  up_.resize(n * config_.feed_forward_dim);
  logits_.resize(int64_t{max_logit_rows} * config_.vocab_size);
}

int64_t Runner::ScratchBytes(const ModelConfig& config, int max_tokens, int max_logit_rows) {
  const int64_t num_ropes = static_cast<int64_t>(config.ropes.size());
  const int64_t floats_per_token = num_ropes * config.ropes[0].rotary_dim +
                                   3 * int64_t{config.embedding_dim} + 2 * config.q_dim() +
                                   2 * config.kv_dim() + 2 * int64_t{config.feed_forward_dim};
  return static_cast<int64_t>(sizeof(float)) *
         (max_tokens * floats_per_token + int64_t{max_logit_rows} * config.vocab_size);
}

bool Runner::Run(const StepPlan& plan, absl::FunctionRef<bool()> abandoned) {
  CAIRN_CHECK(!plan.empty() && plan.num_rows <= static_cast<int>(positions_.size()));
  CAIRN_CHECK(int64_t{plan.num_logit_rows} * config_.vocab_size <=
              static_cast<int64_t>(logits_.size()));
  for (const BlockCopy& copy : plan.copies) cache_.CopyBlock(copy.from, copy.to);
  n_ = plan.num_rows;
  LoadRows(plan);
  for (size_t i = 0; i < rope_tables_.size(); ++i) {
    kernels::RopeTable(weights_.rope(static_cast<int>(i)), positions_.data(), n_,
                       rope_tables_[i].data());
  }
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    if (abandoned()) return false;
    Attention(layer);
    FeedForward(layer);
  }
  OutputLogits(plan);
  return true;
}

std::span<const float> Runner::Logits(int i) const {
  return std::span(logits_).subspan(int64_t{i} * config_.vocab_size, config_.vocab_size);
}

void Runner::ForRows(absl::FunctionRef<void(int64_t, int64_t)> fn) {
  if (n_ <= kRowsPerTask) return fn(0, n_);
  pool_.ParallelFor((n_ + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task) {
    fn(task * kRowsPerTask, std::min(n_, (task + 1) * kRowsPerTask));
  });
}

void Runner::LoadRows(const StepPlan& plan) {
  int64_t row = 0;
  for (const StepChunk& chunk : plan.chunks) {
    for (int i = 0; i < chunk.num_rows(); ++i, ++row) {
      const int num_known = static_cast<int>(chunk.tokens.size());
      const TokenId token = i < num_known ? chunk.tokens[i] : chunk.draft[i - num_known];
      CAIRN_DCHECK(token >= 0 && token < config_.vocab_size);
      float* hidden = &hidden_[row * config_.embedding_dim];
      weights_.EmbeddingRow(token, hidden);
      for (int d = 0; d < config_.embedding_dim; ++d) hidden[d] *= config_.embedding_scale;
      positions_[row] = chunk.first_position + i;
      block_tables_[row] = chunk.blocks.data();
    }
  }
  CAIRN_CHECK(row == n_);
}

void Runner::NormalizeHeads(const LayerWeights& w, int64_t begin, int64_t end) {
  const kernels::HeadShape& heads = config_.heads;
  float* q = &q_[begin * config_.q_dim()];
  float* k = &k_[begin * config_.kv_dim()];
  kernels::RmsNorm(q, (end - begin) * heads.num_heads, heads.head_dim, w.q_norm.data(),
                   config_.rms_epsilon, q);
  kernels::RmsNorm(k, (end - begin) * heads.num_kv_heads, heads.head_dim, w.k_norm.data(),
                   config_.rms_epsilon, k);
}

void Runner::AddProjected(const std::vector<float>& post_norm, int64_t begin, int64_t end) {
  const int64_t dim = config_.embedding_dim;
  float* hidden = &hidden_[begin * dim];
  float* projected = &projected_[begin * dim];
  if (!post_norm.empty()) {
    kernels::RmsNorm(projected, end - begin, dim, post_norm.data(), config_.rms_epsilon, projected);
  }
  kernels::Add(hidden, projected, (end - begin) * dim, hidden);
}

void Runner::Activate(int64_t begin, int64_t end) {
  const int64_t ffn = config_.feed_forward_dim;
  float* gate = &gate_[begin * ffn];
  const auto multiply =
      config_.activation == Activation::kSilu ? kernels::SiluMul : kernels::GeluTanhMul;
  multiply(gate, &up_[begin * ffn], (end - begin) * ffn, gate);
}

void Runner::Attention(int layer) {
  const LayerWeights& w = weights_.layers()[layer];
  const LayerConfig& layer_config = config_.layers[layer];
  const kernels::HeadShape& heads = config_.heads;
  const int64_t dim = config_.embedding_dim;
  const int64_t q_dim = config_.q_dim();
  const int64_t kv_dim = config_.kv_dim();

  ForRows([&](int64_t begin, int64_t end) {
    kernels::RmsNorm(&hidden_[begin * dim], end - begin, dim, w.attention_norm.data(),
                     config_.rms_epsilon, &normed_[begin * dim]);
  });
  const std::array<kernels::MatMulOutput, 3> qkv = {{
      {&w.q, BiasOrNull(w.q_bias), q_.data(), q_dim},
      {&w.k, BiasOrNull(w.k_bias), k_.data(), kv_dim},
      {&w.v, BiasOrNull(w.v_bias), v_.data(), kv_dim},
  }};
  kernels::MatMulGroup({normed_.data(), n_, dim}, qkv, pool_);

  ForRows([&](int64_t begin, int64_t end) {
    if (config_.qk_norm) NormalizeHeads(w, begin, end);
    const int rotary_dim = config_.ropes[layer_config.rope].rotary_dim;
    const float* table = &rope_tables_[layer_config.rope][begin * rotary_dim];
    kernels::Rope(config_.rope_pairing, table, rotary_dim, end - begin, heads.num_heads,
                  heads.head_dim, q_dim, &q_[begin * q_dim]);
    kernels::Rope(config_.rope_pairing, table, rotary_dim, end - begin, heads.num_kv_heads,
                  heads.head_dim, kv_dim, &k_[begin * kv_dim]);
    for (int64_t row = begin; row < end; ++row) {
      const int32_t position = positions_[row];
      cache_.Store(layer, block_tables_[row][position / kBlockTokens], position % kBlockTokens,
                   &k_[row * kv_dim], &v_[row * kv_dim]);
    }
  });

  kernels::PagedAttentionArgs args;
  args.shape = heads;
  args.kv = cache_.Layer(layer);
  args.n = n_;
  args.q = q_.data();
  args.q_stride = q_dim;
  args.positions = positions_.data();
  args.block_tables = block_tables_.data();
  args.window = layer_config.window;
  args.scale = config_.attention_scale;
  args.out = attention_.data();
  args.out_stride = q_dim;
  kernels::PagedAttention(args, pool_);
  kernels::MatMul(w.attention_output, attention_.data(), n_, projected_.data(), pool_,
                  BiasOrNull(w.attention_output_bias));
}

void Runner::FeedForward(int layer) {
  const LayerWeights& w = weights_.layers()[layer];
  const int64_t dim = config_.embedding_dim;
  const int64_t ffn = config_.feed_forward_dim;

  ForRows([&](int64_t begin, int64_t end) {
    AddProjected(w.post_attention_norm, begin, end);
    kernels::RmsNorm(&hidden_[begin * dim], end - begin, dim, w.feed_forward_norm.data(),
                     config_.rms_epsilon, &normed_[begin * dim]);
  });
  const std::array<kernels::MatMulOutput, 2> gate_up = {{
      {&w.gate, nullptr, gate_.data(), ffn},
      {&w.up, nullptr, up_.data(), ffn},
  }};
  kernels::MatMulGroup({normed_.data(), n_, dim}, gate_up, pool_);
  ForRows([&](int64_t begin, int64_t end) { Activate(begin, end); });
  kernels::MatMul(w.down, gate_.data(), n_, projected_.data(), pool_);
  ForRows([&](int64_t begin, int64_t end) { AddProjected(w.post_feed_forward_norm, begin, end); });
}

void Runner::OutputLogits(const StepPlan& plan) {
  const int64_t dim = config_.embedding_dim;
  int64_t end_row = 0;
  int64_t num_rows = 0;
  for (const StepChunk& chunk : plan.chunks) {
    end_row += chunk.num_rows();
    if (chunk.num_logits == 0) continue;
    kernels::RmsNorm(&hidden_[(end_row - chunk.num_logits) * dim], chunk.num_logits, dim,
                     weights_.output_norm().data(), config_.rms_epsilon, &normed_[num_rows * dim]);
    num_rows += chunk.num_logits;
  }
  if (num_rows == 0) return;
  kernels::MatMul(weights_.output(), normed_.data(), num_rows, logits_.data(), pool_);
}

}  // namespace cairn::engine
