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

// Consecutive tokens of one sequence: known ones, then guesses at what follows them. The spans look
// into the sequence and live until it changes.
struct StepChunk {
  SequenceId sequence = 0;
  int first_position = 0;           // of tokens[0]; earlier positions are in the KV cache
  std::span<const TokenId> tokens;  // at least one
  std::span<const TokenId> draft;   // only after the last known token
  std::span<const BlockId> blocks;  // the block table; covers all positions of the chunk
  int num_logits = 0;               // how many of the last rows want logits

  int num_rows() const { return static_cast<int>(tokens.size() + draft.size()); }
};

// The keys and values of a block that is about to be written by one of several who share it.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
};

struct StepPlan {
  std::vector<BlockCopy> copies;  // in order, before anything is computed
  std::vector<StepChunk> chunks;
  // Sequences that gave their blocks to others: no longer running, to be admitted again.
  std::vector<SequenceId> preempted;
  int num_rows = 0;
  int num_logit_rows = 0;
  bool empty() const { return chunks.empty(); }
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_STEP_PLAN_H_
