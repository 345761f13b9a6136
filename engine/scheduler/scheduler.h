// Scheduler decides what each step computes.
//
// There is no prefill phase and no decode phase: a sequence knows some tokens and has computed
// some, and a step fills its token budget with what sequences owe. Sequences that owe one token
// after their prompt go first, so nobody's stream waits for another's prompt; prompts share the
// rest in order of admission.
//
// Admission reserves the blocks of prompt + max_tokens: an admitted sequence always runs to its
// end, so nothing needs preemption. With a prefix cache, blocks that already hold the beginning of
// the prompt are shared instead of computed, and every whole block becomes known once computed.
//
// Ownership: sequences belong to the caller; between Admit and Remove the scheduler keeps a
// pointer. Threads:   thread-compatible; the step loop is the only caller. No clock, no text.
#ifndef CAIRN_ENGINE_SCHEDULER_SCHEDULER_H_
#define CAIRN_ENGINE_SCHEDULER_SCHEDULER_H_

#include <string>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/prefix_cache.h"
#include "engine/scheduler/step_plan.h"

namespace cairn::engine {

struct Sequence {
  SequenceId id = 0;
  std::vector<TokenId> tokens;  // known: the prompt, then what was sampled
  int num_prompt = 0;
  int max_tokens = 0;    // sampled at most
  int num_computed = 0;  // tokens whose keys and values are in the cache
  int num_cached = 0;    // of them, those that were there at admission
  std::string salt;      // only sequences with equal salts share blocks
  bool paused = false;   // its reader is behind: plan nothing for it
  BlockTable table;      // reserved at admission

  int num_owed() const { return static_cast<int>(tokens.size()) - num_computed; }
};

struct SchedulerOptions {
  int max_running = 8;
  int step_token_budget = 512;
  // Prompt tokens in a step that also carries a decoding sequence: bounds how long that one waits.
  int mixed_prefill_tokens = 32;
};

class Scheduler {
 public:
  // `prefixes` may be null: then nothing is shared. REQUIRES: options are positive, max_running <=
  // step_token_budget; `pool` and `prefixes` outlive the scheduler.
  Scheduler(const SchedulerOptions& options, BlockPool* pool, PrefixCache* prefixes = nullptr);

  // Whether there was room; if so the sequence has its blocks and takes part from the next Plan on.
  // REQUIRES: tokens.size() == num_prompt > 0, max_tokens > 0.
  bool Admit(Sequence* sequence);

  // Empty when no sequence owes anything that may be computed now.
  StepPlan Plan() const;
  // The plan has been executed.
  void Commit(const StepPlan& plan);

  // Forgets the sequence and gives its blocks back. REQUIRES: it was admitted.
  void Remove(Sequence* sequence);

  int num_running() const { return static_cast<int>(running_.size()); }

 private:
  static bool IsDecoding(const Sequence& sequence) {
    return sequence.num_computed >= sequence.num_prompt;
  }
  static void AddChunk(const Sequence& sequence, int num_tokens, StepPlan* plan);

  const SchedulerOptions options_;
  BlockPool* const pool_;
  PrefixCache* const prefixes_;
  std::vector<Sequence*> running_;  // in order of admission
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_SCHEDULER_H_
