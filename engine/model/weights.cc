#include "engine/model/weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/strings.h"
#include "kernels/dtype.h"

namespace cairn::engine {
namespace {

// Lets the kernel drop the file's pages under `bytes` from this process. They are clean: whoever
// reads them again gets them back from the page cache or the disk.
void ReleasePages(std::span<const uint8_t> bytes) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string ShapeOf(const GgufTensor& tensor) {
  std::string shape = "[";
  for (size_t i = tensor.dims.size(); i > 0; --i) {
    StrAppend(&shape, tensor.dims[i - 1], i > 1 ? ", " : "");
  }
  return shape + "]";
}

}  // namespace

class ModelWeights::Loader {
 public:
  Loader(ModelWeights* weights, WorkerPool& pool)
      : weights_(*weights), file_(*weights->file_), config_(weights->config_), pool_(pool) {}

  absl::Status Load() {
    CAIRN_RETURN_IF_ERROR(LoadEmbedding());
    CAIRN_RETURN_IF_ERROR(LoadRope());
    CAIRN_RETURN_IF_ERROR(
        Vector("output_norm.weight", config_.embedding_dim, &weights_.output_norm_));
    weights_.layers_.resize(config_.num_layers);
    for (int i = 0; i < config_.num_layers; ++i) {
      CAIRN_RETURN_IF_ERROR(LoadLayer(StrCat("blk.", i, "."), &weights_.layers_[i]));
    }
    // Models with tied embeddings have no output matrix of their own.
    const std::string_view output =
        file_.FindTensor("output.weight") != nullptr ? "output.weight" : "token_embd.weight";
    CAIRN_RETURN_IF_ERROR(
        Matrix(output, config_.vocab_size, config_.embedding_dim, &weights_.output_));
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!used_.contains(tensor.name)) {
        return absl::UnimplementedError(StrCat("tensor ", tensor.name,
                                               " is not part of architecture ",
                                               config_.architecture, " as we know it"));
      }
    }
    return absl::OkStatus();
  }

 private:
  // A 2-d tensor of the given shape.
  absl::StatusOr<const GgufTensor*> Find(std::string_view name, int64_t rows, int64_t cols) {
    CAIRN_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_.Tensor(name));
    if (tensor->dims.size() != 2 || tensor->rows() != rows || tensor->cols() != cols) {
      return absl::InvalidArgumentError(StrCat("tensor ", name, " has shape ", ShapeOf(*tensor),
                                               ", not [", rows, ", ", cols, "]"));
    }
    used_.insert(tensor->name);
    return tensor;
  }

  absl::Status Matrix(std::string_view name, int64_t rows, int64_t cols,
                      kernels::PackedMatrix* matrix) {
    CAIRN_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, rows, cols));
    absl::StatusOr<kernels::PackedMatrix> packed = kernels::PackedMatrix::Pack(
        tensor->type, tensor->data.data(), tensor->data.size(), rows, cols, pool_);
    if (!packed.ok()) return Annotate(packed.status(), StrCat("tensor ", name));
    *matrix = *std::move(packed);
    weights_.memory_bytes_ += static_cast<int64_t>(matrix->memory_bytes());
    if (matrix->memory_bytes() > 0) ReleasePages(tensor->data);
    return absl::OkStatus();
  }

  absl::Status Vector(std::string_view name, int64_t size, std::vector<float>* vector) {
    CAIRN_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_.Tensor(name));
    if (tensor->dims.size() != 1 || tensor->cols() != size) {
      return absl::InvalidArgumentError(
          StrCat("tensor ", name, " has shape ", ShapeOf(*tensor), ", not [", size, "]"));
    }
    if (size % kernels::Info(tensor->type).block_elements != 0) {
      return absl::InvalidArgumentError(
          StrCat("tensor ", name, ": ", size, " elements are no whole blocks"));
    }
    used_.insert(tensor->name);
    vector->resize(size);
    kernels::DequantizeRow(tensor->type, tensor->data.data(), size, vector->data());
    for (const float value : *vector) {
      if (!std::isfinite(value)) {
        return absl::InvalidArgumentError(
            StrCat("tensor ", name, " holds a value that is not finite"));
      }
    }
    weights_.memory_bytes_ += size * static_cast<int64_t>(sizeof(float));
    return absl::OkStatus();
  }

  absl::Status OptionalVector(std::string_view name, int64_t size, std::vector<float>* vector) {
    return file_.FindTensor(name) != nullptr ? Vector(name, size, vector) : absl::OkStatus();
  }

  absl::Status LoadEmbedding() {
    CAIRN_ASSIGN_OR_RETURN(weights_.embedding_,
                           Find("token_embd.weight", config_.vocab_size, config_.embedding_dim));
    const kernels::DTypeInfo& info = kernels::Info(weights_.embedding_->type);
    if (config_.embedding_dim % info.block_elements != 0) {
      return absl::InvalidArgumentError(StrCat("token_embd.weight: rows of ", config_.embedding_dim,
                                               " are no whole blocks of ", info.name));
    }
    weights_.embedding_row_bytes_ =
        int64_t{config_.embedding_dim} / info.block_elements * info.block_bytes;
    return absl::OkStatus();
  }

  // Llama 3.1 and later store one divisor per rotary frequency.
  absl::Status LoadRope() {
    std::vector<float> factors;
    if (config_.ropes.size() == 1) {
      CAIRN_RETURN_IF_ERROR(
          OptionalVector("rope_freqs.weight", config_.ropes[0].rotary_dim / 2, &factors));
    }
    for (const float factor : factors) {
      if (!(factor > 0)) {
        return absl::InvalidArgumentError("rope_freqs.weight holds a factor that is not positive");
      }
    }
    for (const RopeConfig& rope : config_.ropes) {
      weights_.rope_frequencies_.push_back(RopeFrequencies(rope, factors));
    }
    return absl::OkStatus();
  }

  absl::Status LoadLayer(const std::string& prefix, LayerWeights* layer) {
    const int64_t dim = config_.embedding_dim;
    const int64_t ffn = config_.feed_forward_dim;
    const int64_t q_dim = config_.q_dim();
    const int64_t kv_dim = config_.kv_dim();
    CAIRN_RETURN_IF_ERROR(Vector(prefix + "attn_norm.weight", dim, &layer->attention_norm));
    CAIRN_RETURN_IF_ERROR(Matrix(prefix + "attn_q.weight", q_dim, dim, &layer->q));
    CAIRN_RETURN_IF_ERROR(Matrix(prefix + "attn_k.weight", kv_dim, dim, &layer->k));
    CAIRN_RETURN_IF_ERROR(Matrix(prefix + "attn_v.weight", kv_dim, dim, &layer->v));
    CAIRN_RETURN_IF_ERROR(
        Matrix(prefix + "attn_output.weight", dim, q_dim, &layer->attention_output));
    CAIRN_RETURN_IF_ERROR(OptionalVector(prefix + "attn_q.bias", q_dim, &layer->q_bias));
    CAIRN_RETURN_IF_ERROR(OptionalVector(prefix + "attn_k.bias", kv_dim, &layer->k_bias));
    CAIRN_RETURN_IF_ERROR(OptionalVector(prefix + "attn_v.bias", kv_dim, &layer->v_bias));
    CAIRN_RETURN_IF_ERROR(
        OptionalVector(prefix + "attn_output.bias", dim, &layer->attention_output_bias));
    if (config_.qk_norm) {
      const int64_t head_dim = config_.heads.head_dim;
      CAIRN_RETURN_IF_ERROR(Vector(prefix + "attn_q_norm.weight", head_dim, &layer->q_norm));
      CAIRN_RETURN_IF_ERROR(Vector(prefix + "attn_k_norm.weight", head_dim, &layer->k_norm));
    }
    if (config_.post_norms) {
      CAIRN_RETURN_IF_ERROR(
          Vector(prefix + "post_attention_norm.weight", dim, &layer->post_attention_norm));
      CAIRN_RETURN_IF_ERROR(
          Vector(prefix + "post_ffw_norm.weight", dim, &layer->post_feed_forward_norm));
    }
    CAIRN_RETURN_IF_ERROR(Vector(prefix + "ffn_norm.weight", dim, &layer->feed_forward_norm));
    CAIRN_RETURN_IF_ERROR(Matrix(prefix + "ffn_gate.weight", ffn, dim, &layer->gate));
    CAIRN_RETURN_IF_ERROR(Matrix(prefix + "ffn_up.weight", ffn, dim, &layer->up));
    CAIRN_RETURN_IF_ERROR(Matrix(prefix + "ffn_down.weight", dim, ffn, &layer->down));
    return absl::OkStatus();
  }

  ModelWeights& weights_;
  const GgufFile& file_;
  const ModelConfig& config_;
  WorkerPool& pool_;
  std::set<std::string_view> used_;
};

absl::StatusOr<std::unique_ptr<ModelWeights>> ModelWeights::Load(std::unique_ptr<GgufFile> file,
                                                                 WorkerPool& pool) {
  std::unique_ptr<ModelWeights> weights(new ModelWeights());
  weights->file_ = std::move(file);
  CAIRN_ASSIGN_OR_RETURN(weights->config_, ReadModelConfig(*weights->file_));
  CAIRN_RETURN_IF_ERROR(Loader(weights.get(), pool).Load());
  return weights;
}

kernels::RopeParams ModelWeights::rope(int i) const {
  return {.rotary_dim = config_.ropes[i].rotary_dim,
          .frequencies = rope_frequencies_[i].data(),
          .magnitude = RopeMagnitude(config_.ropes[i].scaling)};
}

void ModelWeights::EmbeddingRow(int32_t token, float* dst) const {
  kernels::DequantizeRow(embedding_->type, embedding_->data.data() + token * embedding_row_bytes_,
                         config_.embedding_dim, dst);
}

}  // namespace cairn::engine
