// ModelConfig: the hyper-parameters of a generator, read from a GGUF file and checked.
//
// Architectures: llama (also SmolLM, Mistral, TinyLlama ...), qwen2, qwen3 and gemma3 (text). What
// a file asks for and we do not do is refused with UNIMPLEMENTED naming the key, never ignored: a
// wrong rotary scaling, say, only shows after a thousand tokens.
#ifndef CAIRN_ENGINE_MODEL_CONFIG_H_
#define CAIRN_ENGINE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/gguf/gguf.h"
#include "engine/model/rope_scaling.h"
#include "kernels/attention.h"
#include "kernels/ops.h"

namespace cairn::engine {

enum class Activation { kSilu, kGeluTanh };  // of the feed-forward gate

// What may differ from layer to layer.
struct LayerConfig {
  int window = 0;  // tokens that a token attends to at most, itself among them; 0 = all
  int rope = 0;    // index into ModelConfig::ropes
};

struct ModelConfig {
  std::string architecture;
  int vocab_size = 0;
  int embedding_dim = 0;
  int num_layers = 0;
  int feed_forward_dim = 0;
  int context_length = 0;  // what the model was trained for
  float rms_epsilon = 0;
  bool qk_norm = false;  // queries and keys pass an RMS norm per head before the rotation
  kernels::HeadShape heads;
  kernels::RopePairing rope_pairing = kernels::RopePairing::kInterleaved;
  std::vector<RopeConfig> ropes;    // of one rotary_dim
  std::vector<LayerConfig> layers;  // [num_layers]
  float attention_scale = 0;        // usually 1 / sqrt(head_dim)
  float embedding_scale = 1;
  Activation activation = Activation::kSilu;
  // What attention and the feed-forward part give passes an RMS norm before it is added.
  bool post_norms = false;

  int64_t q_dim() const { return int64_t{heads.num_heads} * heads.head_dim; }
  int64_t kv_dim() const { return int64_t{heads.num_kv_heads} * heads.head_dim; }
};

// INVALID_ARGUMENT for a value out of range or a contradiction, NOT_FOUND for a missing key,
// UNIMPLEMENTED for an architecture or a feature that we do not have. The vocabulary size is that
// of the embedding table.
absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_MODEL_CONFIG_H_
