#include "engine/encoder/bert_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/strings.h"
#include "kernels/attention.h"
#include "kernels/ops.h"

namespace cairn::engine {
namespace {

using kernels::PackedMatrix;

constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxLayers = 1 << 10;
constexpr int64_t kRowsPerTask = 16;  // of element-wise work: enough to hide the cost of a task

absl::StatusOr<int> GetBounded(const GgufFile& file, std::string_view key, int64_t low,
                               int64_t high) {
  CAIRN_ASSIGN_OR_RETURN(const int64_t value, file.GetInt(key));
  if (value < low || value > high) {
    return absl::InvalidArgumentError(StrCat(key, " is ", value, ", expected ", low, "..", high));
  }
  return static_cast<int>(value);
}

absl::StatusOr<Pooling> PoolingFromNumber(int64_t number) {
  switch (number) {  // llama.cpp's enum llama_pooling_type
    case 1:
      return Pooling::kMean;
    case 2:
      return Pooling::kCls;
    case 4:
      return Pooling::kRank;
    default:
      return absl::UnimplementedError(StrCat("bert.pooling_type ", number, " is not known"));
  }
}

absl::StatusOr<std::string> GetOptionalString(const GgufFile& file, std::string_view key) {
  if (!file.Has(key)) return std::string();
  CAIRN_ASSIGN_OR_RETURN(const std::string_view value, file.GetString(key));
  return std::string(value);
}

// Runs fn(first_row, num_rows) over all rows, in parallel.
template <typename Fn>
void ForRows(int64_t rows, WorkerPool& pool, const Fn& fn) {
  pool.ParallelFor((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task) {
    const int64_t first = task * kRowsPerTask;
    fn(first, std::min(kRowsPerTask, rows - first));
  });
}

}  // namespace

std::string_view PoolingName(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kCls:
      return "cls";
    case Pooling::kRank:
      return "rank";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<BertModel>> BertModel::Load(const std::string& path,
                                                           WorkerPool& pool) {
  auto model = std::unique_ptr<BertModel>(new BertModel());
  CAIRN_ASSIGN_OR_RETURN(model->file_, GgufFile::Open(path));
  if (absl::Status status = model->ReadConfig(); !status.ok()) return Annotate(status, path);
  if (absl::Status status = model->ReadWeights(pool); !status.ok()) return Annotate(status, path);
  return model;
}

absl::Status BertModel::ReadConfig() {
  const GgufFile& file = *file_;
  CAIRN_ASSIGN_OR_RETURN(const std::string_view architecture,
                         file.GetString("general.architecture"));
  if (architecture != "bert") {
    return absl::UnimplementedError(
        StrCat("architecture '", architecture, "' is not an encoder that we know"));
  }
  CAIRN_ASSIGN_OR_RETURN(config_.name, GetOptionalString(file, "general.name"));
  CAIRN_ASSIGN_OR_RETURN(config_.num_layers, GetBounded(file, "bert.block_count", 1, kMaxLayers));
  CAIRN_ASSIGN_OR_RETURN(config_.hidden, GetBounded(file, "bert.embedding_length", 1, kMaxWidth));
  CAIRN_ASSIGN_OR_RETURN(config_.feed_forward,
                         GetBounded(file, "bert.feed_forward_length", 1, kMaxWidth));
  CAIRN_ASSIGN_OR_RETURN(config_.num_heads,
                         GetBounded(file, "bert.attention.head_count", 1, config_.hidden));
  // Room for two special tokens and some text; 2^20 positions are far beyond any table.
  CAIRN_ASSIGN_OR_RETURN(config_.context_length,
                         GetBounded(file, "bert.context_length", 4, 1 << 20));
  CAIRN_ASSIGN_OR_RETURN(const double epsilon, file.GetFloat("bert.attention.layer_norm_epsilon"));
  if (!(epsilon > 0 && epsilon < 0.01)) {
    return absl::InvalidArgumentError(StrCat("bert.attention.layer_norm_epsilon is ", epsilon));
  }
  config_.layer_norm_epsilon = static_cast<float>(epsilon);
  CAIRN_ASSIGN_OR_RETURN(const int64_t pooling, file.GetInt("bert.pooling_type"));
  CAIRN_ASSIGN_OR_RETURN(config_.pooling, PoolingFromNumber(pooling));
  CAIRN_ASSIGN_OR_RETURN(config_.query_prefix,
                         GetOptionalString(file, "cairn.embedding.query_prefix"));
  CAIRN_ASSIGN_OR_RETURN(config_.passage_prefix,
                         GetOptionalString(file, "cairn.embedding.passage_prefix"));
  const int head_dim = config_.hidden / config_.num_heads;
  if (config_.hidden % config_.num_heads != 0 || head_dim % 8 != 0 ||
      head_dim > kernels::kMaxHeadDim) {
    return absl::UnimplementedError(
        StrCat("hidden size ", config_.hidden, " with ", config_.num_heads,
               " heads: the head size must be a multiple of 8 up to ", kernels::kMaxHeadDim));
  }
  return absl::OkStatus();
}

// rows = 0 asks for a vector.
absl::StatusOr<const GgufTensor*> BertModel::Find(const std::string& name, int64_t rows,
                                                  int64_t cols) const {
  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_->Tensor(name));
  const size_t dimensions = rows == 0 ? 1 : 2;
  if (tensor->dims.size() != dimensions || tensor->cols() != cols ||
      tensor->rows() != std::max<int64_t>(rows, 1)) {
    return absl::InvalidArgumentError(StrCat(
        "tensor '", name, "' has ", tensor->dims.size(), " dimensions, ", tensor->rows(), " x ",
        tensor->cols(), "; expected ", dimensions, ", ", std::max<int64_t>(rows, 1), " x ", cols));
  }
  return tensor;
}

absl::StatusOr<std::vector<float>> BertModel::ReadVector(const std::string& name, int64_t size) {
  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, 0, size));
  std::vector<float> values(size);
  kernels::DequantizeRow(tensor->type, tensor->data.data(), size, values.data());
  weight_bytes_ += size * static_cast<int64_t>(sizeof(float));
  return values;
}

absl::StatusOr<BertModel::Norm> BertModel::ReadNorm(const std::string& name) {
  Norm norm;
  CAIRN_ASSIGN_OR_RETURN(norm.weight, ReadVector(name + ".weight", config_.hidden));
  CAIRN_ASSIGN_OR_RETURN(norm.bias, ReadVector(name + ".bias", config_.hidden));
  return norm;
}

absl::StatusOr<BertModel::Linear> BertModel::ReadLinear(const std::string& name, int64_t rows,
                                                        int64_t cols, WorkerPool& pool) {
  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name + ".weight", rows, cols));
  Linear linear;
  CAIRN_ASSIGN_OR_RETURN(linear.weight, PackedMatrix::Pack(tensor->type, tensor->data.data(),
                                                           tensor->data.size(), rows, cols, pool));
  CAIRN_ASSIGN_OR_RETURN(linear.bias, ReadVector(name + ".bias", rows));
  const size_t packed = linear.weight.memory_bytes();
  weight_bytes_ += static_cast<int64_t>(packed > 0 ? packed : tensor->data.size());
  return linear;
}

absl::Status BertModel::ReadWeights(WorkerPool& pool) {
  const int64_t hidden = config_.hidden, wide = config_.feed_forward;
  CAIRN_ASSIGN_OR_RETURN(words_, file_->Tensor("token_embd.weight"));
  CAIRN_ASSIGN_OR_RETURN(words_, Find("token_embd.weight", words_->rows(), hidden));
  weight_bytes_ += static_cast<int64_t>(words_->data.size());

  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* positions, file_->Tensor("position_embd.weight"));
  CAIRN_ASSIGN_OR_RETURN(positions, Find("position_embd.weight", positions->rows(), hidden));
  if (positions->rows() < config_.context_length) {
    return absl::InvalidArgumentError(StrCat("position_embd.weight has ", positions->rows(),
                                             " rows for bert.context_length ",
                                             config_.context_length));
  }
  positions_.resize(config_.context_length * hidden);
  kernels::DequantizeRow(positions->type, positions->data.data(), config_.context_length * hidden,
                         positions_.data());
  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* types, file_->Tensor("token_types.weight"));
  CAIRN_ASSIGN_OR_RETURN(types, Find("token_types.weight", types->rows(), hidden));
  num_types_ = types->rows();
  types_.resize(num_types_ * hidden);
  kernels::DequantizeRow(types->type, types->data.data(), num_types_ * hidden, types_.data());
  weight_bytes_ += static_cast<int64_t>((positions_.size() + types_.size()) * sizeof(float));
  CAIRN_ASSIGN_OR_RETURN(embedding_norm_, ReadNorm("token_embd_norm"));

  layers_.resize(config_.num_layers);
  for (int i = 0; i < config_.num_layers; ++i) {
    const std::string block = StrCat("blk.", i, ".");
    Layer& layer = layers_[i];
    CAIRN_ASSIGN_OR_RETURN(layer.query, ReadLinear(block + "attn_q", hidden, hidden, pool));
    CAIRN_ASSIGN_OR_RETURN(layer.key, ReadLinear(block + "attn_k", hidden, hidden, pool));
    CAIRN_ASSIGN_OR_RETURN(layer.value, ReadLinear(block + "attn_v", hidden, hidden, pool));
    CAIRN_ASSIGN_OR_RETURN(layer.output, ReadLinear(block + "attn_output", hidden, hidden, pool));
    CAIRN_ASSIGN_OR_RETURN(layer.attention_norm, ReadNorm(block + "attn_output_norm"));
    CAIRN_ASSIGN_OR_RETURN(layer.up, ReadLinear(block + "ffn_up", wide, hidden, pool));
    CAIRN_ASSIGN_OR_RETURN(layer.down, ReadLinear(block + "ffn_down", hidden, wide, pool));
    CAIRN_ASSIGN_OR_RETURN(layer.output_norm, ReadNorm(block + "layer_output_norm"));
  }
  if (config_.pooling == Pooling::kRank) {
    if (num_types_ < 2) return absl::InvalidArgumentError("a cross-encoder needs two token types");
    CAIRN_ASSIGN_OR_RETURN(pooler_, ReadLinear("cls", hidden, hidden, pool));
    CAIRN_ASSIGN_OR_RETURN(classifier_, ReadLinear("cls.output", 1, hidden, pool));
  }
  return absl::OkStatus();
}

void BertModel::Embed(const RaggedBatch& batch, WorkerPool& pool, float* x) const {
  const int64_t hidden = config_.hidden;
  const size_t row_bytes = words_->data.size() / words_->rows();
  pool.ParallelFor(batch.num_sequences(), [&](int64_t s) {
    for (int64_t i = batch.offsets[s]; i < batch.offsets[s + 1]; ++i) {
      float* row = x + i * hidden;
      kernels::DequantizeRow(words_->type, words_->data.data() + batch.ids[i] * row_bytes, hidden,
                             row);
      const int32_t type = batch.type_ids.empty() ? 0 : batch.type_ids[i];
      kernels::Add(row, types_.data() + type * hidden, hidden, row);
      kernels::Add(row, positions_.data() + (i - batch.offsets[s]) * hidden, hidden, row);
    }
    const int64_t first = batch.offsets[s];
    kernels::LayerNorm(x + first * hidden, batch.offsets[s + 1] - first, hidden,
                       embedding_norm_.weight.data(), embedding_norm_.bias.data(),
                       config_.layer_norm_epsilon, x + first * hidden);
  });
}

void BertModel::AddAndNorm(const Norm& norm, int64_t rows, const float* delta, WorkerPool& pool,
                           float* x) const {
  const int64_t hidden = config_.hidden;
  ForRows(rows, pool, [&](int64_t first, int64_t count) {
    float* row = x + first * hidden;
    kernels::Add(row, delta + first * hidden, count * hidden, row);
    kernels::LayerNorm(row, count, hidden, norm.weight.data(), norm.bias.data(),
                       config_.layer_norm_epsilon, row);
  });
}

void BertModel::ComputeLayer(const Layer& layer, const RaggedBatch& batch, WorkerPool& pool,
                             BertWorkspace* workspace) const {
  const int64_t n = batch.num_tokens(), hidden = config_.hidden, wide = config_.feed_forward;
  float* x = workspace->x.data();
  float* qkv = workspace->qkv.data();
  const kernels::MatMulOutput outputs[] = {
      {&layer.query.weight, layer.query.bias.data(), qkv, 3 * hidden},
      {&layer.key.weight, layer.key.bias.data(), qkv + hidden, 3 * hidden},
      {&layer.value.weight, layer.value.bias.data(), qkv + 2 * hidden, 3 * hidden}};
  kernels::MatMulGroup({x, n, hidden}, outputs, pool);

  kernels::DenseAttentionArgs attention;
  attention.shape = {config_.num_heads, config_.num_heads, config_.hidden / config_.num_heads};
  attention.num_sequences = batch.num_sequences();
  attention.offsets = batch.offsets.data();
  attention.q = qkv;
  attention.k = qkv + hidden;
  attention.v = qkv + 2 * hidden;
  attention.q_stride = attention.k_stride = attention.v_stride = 3 * hidden;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(attention.shape.head_dim));
  attention.out = workspace->attention.data();
  attention.out_stride = hidden;
  kernels::DenseAttention(attention, pool);

  float* delta = workspace->delta.data();
  kernels::MatMul(layer.output.weight, attention.out, n, delta, pool, layer.output.bias.data());
  AddAndNorm(layer.attention_norm, n, delta, pool, x);

  float* up = workspace->wide.data();
  kernels::MatMul(layer.up.weight, x, n, up, pool, layer.up.bias.data());
  ForRows(n, pool, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i)
      kernels::Gelu(up + i * wide, wide, up + i * wide);
  });
  kernels::MatMul(layer.down.weight, up, n, delta, pool, layer.down.bias.data());
  AddAndNorm(layer.output_norm, n, delta, pool, x);
}

absl::Status BertModel::Forward(const RequestContext& context, const RaggedBatch& batch,
                                WorkerPool& pool, BertWorkspace* workspace) const {
  const size_t n = batch.num_tokens(), hidden = config_.hidden;
  const auto grow = [](HugeVector<float>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
  };
  grow(workspace->x, n * hidden);
  grow(workspace->qkv, n * 3 * hidden);
  grow(workspace->attention, n * hidden);
  grow(workspace->delta, n * hidden);
  grow(workspace->wide, n * config_.feed_forward);
  Embed(batch, pool, workspace->x.data());
  for (const Layer& layer : layers_) {
    CAIRN_RETURN_IF_ERROR(context.Check());
    ComputeLayer(layer, batch, pool, workspace);
  }
  return absl::OkStatus();
}

void BertModel::Pool(const float* states, int num_tokens, float* vector) const {
  const int64_t hidden = config_.hidden;
  std::copy(states, states + hidden, vector);
  if (config_.pooling == Pooling::kMean) {  // the length is normalised below: a sum does
    for (int64_t i = 1; i < num_tokens; ++i)
      kernels::Add(vector, states + i * hidden, hidden, vector);
  }
  const float norm = std::sqrt(kernels::Dot(vector, vector, hidden));
  for (int64_t i = 0; i < hidden; ++i) vector[i] /= norm;
}

std::vector<float> BertModel::Classify(const RaggedBatch& batch, const BertWorkspace& workspace,
                                       WorkerPool& pool) const {
  const int64_t n = batch.num_sequences(), hidden = config_.hidden;
  std::vector<float> first(n * hidden), pooled(n * hidden), logits(n);
  for (int64_t s = 0; s < n; ++s) {
    const float* state = workspace.x.data() + batch.offsets[s] * hidden;
    std::copy(state, state + hidden, first.data() + s * hidden);
  }
  kernels::MatMul(pooler_.weight, first.data(), n, pooled.data(), pool, pooler_.bias.data());
  for (float& value : pooled) value = std::tanh(value);
  kernels::MatMul(classifier_.weight, pooled.data(), n, logits.data(), pool,
                  classifier_.bias.data());
  return logits;
}

}  // namespace cairn::engine
