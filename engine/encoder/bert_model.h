// BertModel: weights and forward pass of a BERT encoder (post-norm; Devlin et al., 2019).
//
//   x = LN(word + position + type)
//   per layer: x = LN(x + W_o attention(x));  x = LN(x + W_down gelu(W_up x))
//
// Sequences of a batch stand end to end, without padding; every row's result depends on its own
// sequence only, to the bit (see kernels/matmul.h and kernels/attention.h).
//
// Ownership: holds the model file open, since float weights are views into it.
// Threads:   immutable after Load. Forward may be called from several threads with their own
// workspaces.
#ifndef CAIRN_ENGINE_ENCODER_BERT_MODEL_H_
#define CAIRN_ENGINE_ENCODER_BERT_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/context.h"
#include "common/huge_page_allocator.h"
#include "common/status.h"
#include "common/worker_pool.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/matmul.h"

namespace cairn::engine {

enum class Pooling { kMean, kCls, kRank };  // kRank: pooler and classifier of a cross-encoder
std::string_view PoolingName(Pooling pooling);

struct BertConfig {
  std::string name;
  int num_layers = 0;
  int hidden = 0;
  int feed_forward = 0;
  int num_heads = 0;
  int context_length = 0;  // tokens
  float layer_norm_epsilon = 0;
  Pooling pooling = Pooling::kMean;
  std::string query_prefix;
  std::string passage_prefix;
};

// Sequence s holds tokens offsets[s] .. offsets[s + 1] - 1; none is empty or longer than the
// context.
struct RaggedBatch {
  std::vector<TokenId> ids;         // [total]
  std::vector<int32_t> type_ids;    // [total], or empty: all 0
  std::vector<int32_t> offsets{0};  // [num_sequences + 1]
  int num_sequences() const { return static_cast<int>(offsets.size()) - 1; }
  int num_tokens() const { return static_cast<int>(ids.size()); }
};

// Buffers of a forward pass, kept between calls; grown to the largest batch seen.
struct BertWorkspace {
  HugeVector<float> x;          // [total, hidden]: the result
  HugeVector<float> qkv;        // [total, 3, hidden]
  HugeVector<float> attention;  // [total, hidden]
  HugeVector<float> wide;       // [total, feed_forward]
  HugeVector<float> delta;      // [total, hidden]
};

class BertModel {
 public:
  // UNIMPLEMENTED for another architecture, INVALID_ARGUMENT naming the key or tensor at fault.
  static absl::StatusOr<std::unique_ptr<BertModel>> Load(const std::string& path, WorkerPool& pool);

  // Leaves the last layer's states in workspace->x, [total, hidden]. CANCELLED or DEADLINE_EXCEEDED
  // from the context, which is asked before each layer. REQUIRES: ids and type ids lie within their
  // tables.
  absl::Status Forward(const RequestContext& context, const RaggedBatch& batch, WorkerPool& pool,
                       BertWorkspace* workspace) const;

  // kMean, kCls: the pooled vector [hidden] of a sequence's states, scaled to length 1.
  void Pool(const float* states, int num_tokens, float* vector) const;
  // kRank: the classifier's logit for each sequence, out of its first state.
  std::vector<float> Classify(const RaggedBatch& batch, const BertWorkspace& workspace,
                              WorkerPool& pool) const;

  const BertConfig& config() const { return config_; }
  const GgufFile& file() const { return *file_; }
  int64_t num_words() const { return words_->rows(); }
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  struct Linear {
    kernels::PackedMatrix weight;
    std::vector<float> bias;
  };
  struct Norm {
    std::vector<float> weight, bias;
  };
  struct Layer {
    Linear query, key, value, output, up, down;
    Norm attention_norm, output_norm;
  };

  BertModel() = default;
  absl::Status ReadConfig();
  absl::Status ReadWeights(WorkerPool& pool);
  absl::StatusOr<const GgufTensor*> Find(const std::string& name, int64_t rows, int64_t cols) const;
  absl::StatusOr<std::vector<float>> ReadVector(const std::string& name, int64_t size);
  absl::StatusOr<Norm> ReadNorm(const std::string& name);
  absl::StatusOr<Linear> ReadLinear(const std::string& name, int64_t rows, int64_t cols,
                                    WorkerPool& pool);

  void Embed(const RaggedBatch& batch, WorkerPool& pool, float* x) const;
  void ComputeLayer(const Layer& layer, const RaggedBatch& batch, WorkerPool& pool,
                    BertWorkspace* workspace) const;
  // x = LN(x + delta), row by row.
  void AddAndNorm(const Norm& norm, int64_t rows, const float* delta, WorkerPool& pool,
                  float* x) const;

  std::unique_ptr<GgufFile> file_;
  BertConfig config_;
  const GgufTensor* words_ = nullptr;  // token_embd.weight, rows decoded as they are needed
  std::vector<float> positions_;       // [context_length, hidden]
  std::vector<float> types_;           // [num_types, hidden]
  int64_t num_types_ = 0;
  Norm embedding_norm_;
  std::vector<Layer> layers_;
  Linear pooler_;      // kRank
  Linear classifier_;  // kRank, one row
  int64_t weight_bytes_ = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_ENCODER_BERT_MODEL_H_
