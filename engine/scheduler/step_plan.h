// StepPlan: what one step computes. The scheduler makes it, the runner executes it; plain data.
#ifndef CAIRN_ENGINE_SCHEDULER_STEP_PLAN_H_
#define CAIRN_ENGINE_SCHEDULER_STEP_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

using SequenceId = uint64_t;

// Consecutive tokens of one sequence. The spans look into the sequence and live until it changes.
struct StepChunk {
  SequenceId sequence = 0;
  int first_position = 0;           // of tokens[0]; earlier positions are in the KV cache
  std::span<const TokenId> tokens;  // at least one
  std::span<const BlockId> blocks;  // the block table; covers all positions of the chunk
  bool wants_logits = false;        // of the last token: it is the last one known
};

struct StepPlan {
  std::vector<StepChunk> chunks;
  int num_tokens = 0;
  int num_logit_rows = 0;
  bool empty() const { return chunks.empty(); }
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_STEP_PLAN_H_
