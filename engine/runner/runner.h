// Runner executes one step of a llama-family transformer over the rows of a StepPlan.
//
// All chunks' tokens go through the matrices together, [n, ...] with n = plan.num_tokens; only
// attention looks at sequences. A row's result depends on its own sequence only, to the bit (see
// kernels/matmul.h and kernels/attention.h): chunking and company change nothing. Only rows that
// want logits pass the output projection.
//
// Threads: thread-compatible; the step loop is the only caller. Owns its scratch memory, sized
// once.
#ifndef CAIRN_ENGINE_RUNNER_RUNNER_H_
#define CAIRN_ENGINE_RUNNER_RUNNER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/huge_page_allocator.h"
#include "common/worker_pool.h"
#include "engine/kv_cache/kv_cache.h"
#include "engine/model/weights.h"
#include "engine/scheduler/step_plan.h"

namespace cairn::engine {

class Runner {
 public:
  // What a runner of this size allocates.
  static int64_t ScratchBytes(const ModelConfig& config, int max_tokens, int max_logit_rows);

  // Everything pointed at outlives the runner. Plans hold at most `max_tokens` tokens and
  // `max_logit_rows` rows with logits.
  Runner(const ModelWeights* weights, KvCache* cache, WorkerPool* pool, int max_tokens,
         int max_logit_rows);

  // Copies the plan's blocks, stores the keys and values of its tokens and computes its logits.
  // `abandoned` is asked between layers; when it says yes the step ends there, Run returns false,
  // and nothing that it did counts: the same positions may be computed again. REQUIRES: the plan is
  // not empty, its tokens are in [0, vocab_size).
  bool Run(const StepPlan& plan, absl::FunctionRef<bool()> abandoned);

  // The logits [vocab_size] of the i-th row that wanted them; valid until the next Run.
  std::span<const float> Logits(int i) const;

 private:
  void LoadRows(const StepPlan& plan);
  void Attention(int layer);
  // Row ranges [begin, end): the residual stream takes in projected_, normed first where
  // `post_norm` is not empty; the gate is activated and multiplied with up_; q_ and k_ are normed
  // per head.
  void AddProjected(const std::vector<float>& post_norm, int64_t begin, int64_t end);
  void Activate(int64_t begin, int64_t end);
  void NormalizeHeads(const LayerWeights& w, int64_t begin, int64_t end);
  void FeedForward(int layer);
  void OutputLogits(const StepPlan& plan);
  // fn(begin, end) over row ranges that cover [0, n_), on several threads when there is enough to
  // do.
  void ForRows(absl::FunctionRef<void(int64_t, int64_t)> fn);

  const ModelWeights& weights_;
  const ModelConfig& config_;
  KvCache& cache_;
  WorkerPool& pool_;

  int64_t n_ = 0;                               // rows of the step at hand
  std::vector<int32_t> positions_;              // [n]
  std::vector<const int32_t*> block_tables_;    // [n]
  std::vector<HugeVector<float>> rope_tables_;  // [ropes][n, 2, rotary_dim / 2]
  HugeVector<float> hidden_;                    // [n, embedding_dim], the residual stream
  HugeVector<float> normed_;                    // [n, embedding_dim]
  HugeVector<float> q_, attention_;             // [n, q_dim]
  HugeVector<float> k_, v_;                     // [n, kv_dim]
  HugeVector<float> gate_, up_;                 // [n, feed_forward_dim]
  HugeVector<float> projected_;                 // [n, embedding_dim]
  HugeVector<float> logits_;                    // [max_logit_rows, vocab_size]
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_RUNNER_RUNNER_H_
