// TinyModel: a generator with random weights, small enough to check by hand and to run thousands of
// steps in a test. Byte-level vocabulary: token b < 256 is byte b; then a few multi-byte tokens, an
// end token, and padding.
#ifndef CAIRN_ENGINE_TESTING_TINY_MODEL_H_
#define CAIRN_ENGINE_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/gguf/gguf_writer.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine::testing {

struct TinyModelOptions {
  // llama; qwen2, which gets biases; qwen3, with norms of q and k;
  // gemma3, with what that has: then every second layer is global, the others see `window` tokens
  std::string architecture = "llama";
  int num_layers = 2;
  int embedding_dim = 64;
  int num_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 0;  // 0 = embedding_dim / num_heads, which the file then leaves unsaid
  int feed_forward_dim = 96;
  int context_length = 512;
  bool tied_embeddings = true;
  int window = 20;
  float rope_linear_factor = 0;  // 0 = no scaling
  float rope_yarn_factor = 0;    // 0 = no scaling; over an original context of 32
  bool rope_factors = false;     // a rope_freqs tensor, as llama 3.1 has
  uint32_t seed = 1;
};

struct TinyModel {
  static constexpr TokenId kEnd = 260;
  static constexpr int kVocabSize = 264;

  struct Tensor {
    std::vector<int64_t> dims;  // dims[0] contiguous
    std::vector<float> values;
  };

  explicit TinyModel(const TinyModelOptions& options);

  int head_dim() const {
    return options.head_dim > 0 ? options.head_dim : options.embedding_dim / options.num_heads;
  }

  // The file's bytes, tensors in F32. `edit` may add metadata or tensors; keys in `skip` are left
  // out (metadata keys or tensor names).
  std::string Serialize(const std::vector<std::string>& skip = {},
                        const std::function<void(GgufWriter&)>& edit = nullptr) const;

  // Writes a file that lives as long as the test program and returns its path. One test at a time.
  std::string WriteTemp(const std::string& name) const;

  const TinyModelOptions options;
  std::map<std::string, Tensor> tensors;
};

// The logits [num_tokens, vocab_size] by the plain definition: one loop per formula, in double,
// with keys and values rounded to half precision as the cache stores them.
std::vector<std::vector<double>> ReferenceLogits(const TinyModel& model,
                                                 const std::vector<TokenId>& tokens);

}  // namespace cairn::engine::testing

#endif  // CAIRN_ENGINE_TESTING_TINY_MODEL_H_
