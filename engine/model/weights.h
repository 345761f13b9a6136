// ModelWeights: the tensors of a generator, packed for the kernels.
//
// Memory: quantised matrices are copied into the kernels' layout one after the other, and the pages
// of the file that were read for it are given back at once, so that the process never holds the
// model twice. Embedding rows, and matrices of float types, stay views into the file, which lives
// as long as this does.
//
// Errors:  every shape is checked against the config. A tensor in the file that this architecture
//          does not use is refused with UNIMPLEMENTED: ignoring it would compute another model.
// Threads: immutable after Load.
#ifndef CAIRN_ENGINE_MODEL_WEIGHTS_H_
#define CAIRN_ENGINE_MODEL_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "common/worker_pool.h"
#include "engine/gguf/gguf.h"
#include "engine/model/config.h"
#include "kernels/matmul.h"
#include "kernels/ops.h"

namespace cairn::engine {

struct LayerWeights {
  std::vector<float> attention_norm;       // [embedding_dim]
  kernels::PackedMatrix q;                 // [q_dim, embedding_dim]
  kernels::PackedMatrix k, v;              // [kv_dim, embedding_dim]
  kernels::PackedMatrix attention_output;  // [embedding_dim, q_dim]
  // Empty where the model has none: [q_dim], [kv_dim], [kv_dim], [embedding_dim].
  std::vector<float> q_bias, k_bias, v_bias, attention_output_bias;
  std::vector<float> q_norm, k_norm;     // [head_dim], shared by the heads; empty without qk_norm
  std::vector<float> feed_forward_norm;  // [embedding_dim]
  kernels::PackedMatrix gate, up;        // [feed_forward_dim, embedding_dim]
  kernels::PackedMatrix down;            // [embedding_dim, feed_forward_dim]
  std::vector<float> post_attention_norm, post_feed_forward_norm;  // [embedding_dim]; or empty
};

class ModelWeights {
 public:
  static absl::StatusOr<std::unique_ptr<ModelWeights>> Load(std::unique_ptr<GgufFile> file,
                                                            WorkerPool& pool);

  const ModelConfig& config() const { return config_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const std::vector<float>& output_norm() const { return output_norm_; }  // [embedding_dim]
  const kernels::PackedMatrix& output() const { return output_; }  // [vocab_size, embedding_dim]
  // Of config().ropes[i]; points into this.
  kernels::RopeParams rope(int i) const;
  // dst: [embedding_dim]. REQUIRES: 0 <= token < vocab_size.
  void EmbeddingRow(int32_t token, float* dst) const;
  // Bytes of packed copies and of float vectors.
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  class Loader;
  ModelWeights() = default;

  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  std::vector<LayerWeights> layers_;
  std::vector<float> output_norm_;
  std::vector<std::vector<double>> rope_frequencies_;  // as config_.ropes
  kernels::PackedMatrix output_;
  const GgufTensor* embedding_ = nullptr;
  int64_t embedding_row_bytes_ = 0;
  int64_t memory_bytes_ = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_MODEL_WEIGHTS_H_
