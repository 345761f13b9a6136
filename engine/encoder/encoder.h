// Encoder: a BERT-family model (BERT, XLM-RoBERTa vocabulary) as an embedder or as a cross-encoder.
//
// Batches are ragged: no padding, so a text's result does not depend on its neighbours.
// Threads: thread-safe; calls take turns on the shared worker pool.
#ifndef CAIRN_ENGINE_ENCODER_ENCODER_H_
#define CAIRN_ENGINE_ENCODER_ENCODER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/context.h"
#include "common/status.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

struct EncoderOptions {
  int num_threads = 0;            // 0 = hardware concurrency
  int batch_token_budget = 2048;  // tokens computed together
};

// Which of the model's prefixes goes before the text.
enum class TextKind { kQuery, kPassage, kRaw };

struct EmbedResult {
  std::vector<float> vectors;     // [num_texts, dimension], each of unit length
  std::vector<int> token_counts;  // [num_texts], with special tokens, after any cut
  std::vector<bool> truncated;    // [num_texts], the text was longer than the window
};

struct RerankResult {
  std::vector<float> scores;    // [num_passages], the classifier's raw logit: higher is better
  std::vector<bool> truncated;  // the passage (never the query) was cut
  int64_t num_tokens = 0;
};

class Encoder {
 public:
  static absl::StatusOr<std::unique_ptr<Encoder>> Load(const std::string& path,
                                                       const EncoderOptions& options);
  virtual ~Encoder() = default;

  // INVALID_ARGUMENT for a blank text: a blank has no meaning to embed. FAILED_PRECONDITION when
  // the model is a cross-encoder.
  virtual absl::StatusOr<EmbedResult> Embed(const RequestContext& context,
                                            std::span<const std::string_view> texts,
                                            TextKind kind) = 0;
  // FAILED_PRECONDITION when the model has no classifier head.
  virtual absl::StatusOr<RerankResult> Rerank(const RequestContext& context, std::string_view query,
                                              std::span<const std::string_view> passages) = 0;

  virtual bool is_cross_encoder() const = 0;
  virtual int dimension() const = 0;   // of the vectors; 0 for a cross-encoder
  virtual int max_tokens() const = 0;  // window, special tokens and prefix included
  virtual const Tokenizer& tokenizer() const = 0;
  // The prefix for a kind ("query: ", "passage: ", or "").
  virtual std::string_view prefix(TextKind kind) const = 0;
  // Name, pooling and a hash of the weights: two different spaces never compare equal.
  virtual std::string fingerprint() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_ENCODER_ENCODER_H_
