// Scheduler decides what each step computes.
//
// There is no prefill phase and no decode phase: a sequence knows some tokens and has computed
// some, and a step fills its row budget with what sequences owe. Sequences that owe one token
// after their prompt go first, so nobody's stream waits for another's prompt; prompts share the
// rest in order of admission, and guesses (drafts) get what is left after that.
//
// Blocks. Admission takes the blocks of the tokens known, and asks for room for the next
// kGrowthBlocks of every running sequence; the rest is taken as text grows. When none is left,
// a sequence is preempted: the one with the least computed work among those that may be, a paused
// one before others. It is admitted again with its whole need reserved and may then not be
// preempted: nobody is thrown out twice, so at most every token is computed twice.
//
// With a prefix cache, blocks that already hold the beginning of a sequence are shared instead of
// computed, and every whole block becomes known once computed.
//
// Ownership: sequences belong to the caller; between Admit and Remove (or its preemption) the
// scheduler keeps a pointer. Threads: thread-compatible; the step loop is the only caller. No
// clock, no text.
#ifndef CAIRN_ENGINE_SCHEDULER_SCHEDULER_H_
#define CAIRN_ENGINE_SCHEDULER_SCHEDULER_H_

#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/prefix_cache.h"
#include "engine/scheduler/sequence.h"
#include "engine/scheduler/step_plan.h"

namespace cairn::engine {

struct SchedulerOptions {
  int max_running = 8;          // sequences
  int step_token_budget = 512;  // rows of a step
  // Rows of a step that want logits, at least max_running; what exceeds it is for drafts and for
  // prompts whose logits are wanted.
  int max_logit_rows = 16;
};

class Scheduler {
 public:
  // `prefixes` may be null: then nothing is shared. REQUIRES: max_running <= max_logit_rows and
  // <= step_token_budget, all positive; `pool` and `prefixes` outlive the scheduler.
  Scheduler(const SchedulerOptions& options, BlockPool* pool, PrefixCache* prefixes = nullptr);

  // Whether there was room; if so the sequence has its blocks and takes part from the next Plan on.
  // REQUIRES: it knows its prompt, and prompt + max_tokens fit the pool.
  bool Admit(Sequence* sequence);

  // Empty when no sequence owes anything that may be computed now. A step in which somebody decodes
  // carries at most `mixed_prefill_tokens` others, and at least one. Sequences in `preempted` are
  // forgotten.
  StepPlan Plan(int mixed_prefill_tokens);
  // The plan has been executed. Of drafts nothing counts yet: see Sequence::num_computed.
  void Commit(const StepPlan& plan);

  // `child` continues what `parent` knows, sharing its blocks, in one of the places kept for it.
  // REQUIRES: the child knows the same tokens; everything is computed; parent->num_forks > 0.
  void Fork(Sequence* parent, Sequence* child);

  // Forgets the sequence and gives its blocks back. REQUIRES: it is running.
  void Remove(Sequence* sequence);

  int num_running() const { return static_cast<int>(running_.size()); }

 private:
  struct Share;  // of a step, for one sequence

  int64_t NumAvailable() const;
  std::vector<Share> ShareOut(int mixed_prefill_tokens) const;
  bool Grow(const Share& share, StepPlan* plan);
  // Takes one sequence's blocks and its share, and returns where that stood.
  size_t Preempt(std::vector<Share>* shares, StepPlan* plan);
  static void AddChunk(const Share& share, StepPlan* plan);

  const SchedulerOptions options_;
  BlockPool* const pool_;
  PrefixCache* const prefixes_;
  std::vector<Sequence*> running_;  // in order of admission
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_SCHEDULER_H_
