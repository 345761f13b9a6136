#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace cairn::engine {

Scheduler::Scheduler(const SchedulerOptions& options, BlockPool* pool, PrefixCache* prefixes)
    : options_(options), pool_(pool), prefixes_(prefixes) {
  CAIRN_CHECK(options.max_running > 0 && options.mixed_prefill_tokens > 0);
  CAIRN_CHECK(options.max_running <= options.step_token_budget);
}

bool Scheduler::Admit(Sequence* sequence) {
  CAIRN_CHECK(sequence->num_prompt > 0 && sequence->max_tokens > 0);
  CAIRN_CHECK(static_cast<int>(sequence->tokens.size()) == sequence->num_prompt);
  if (num_running() >= options_.max_running) return false;
  // The last token sampled is never computed, so its slot is not needed; reserved all the same to
  // keep the sum that users see, prompt + max_tokens.
  const int64_t num_tokens = int64_t{sequence->num_prompt} + sequence->max_tokens;
  int64_t num_blocks = BlocksForTokens(num_tokens);
  BlockTable table;
  if (prefixes_ != nullptr) {
    // The last token of the prompt is computed in any case: its logits are wanted.
    table = prefixes_->Match(sequence->salt,
                             std::span(sequence->tokens).first(sequence->num_prompt - 1));
    num_blocks -= static_cast<int64_t>(table.blocks().size());
    if (!prefixes_->Reclaim(num_blocks)) return false;
  }
  absl::StatusOr<BlockTable> rest = pool_->Allocate(num_blocks);
  if (!rest.ok()) return false;
  sequence->num_cached = sequence->num_computed = static_cast<int>(table.capacity_tokens());
  table.Append(*std::move(rest));
  sequence->table = std::move(table);
  running_.push_back(sequence);
  return true;
}

void Scheduler::AddChunk(const Sequence& sequence, int num_tokens, StepPlan* plan) {
  StepChunk chunk;
  chunk.sequence = sequence.id;
  chunk.first_position = sequence.num_computed;
  chunk.tokens = std::span(sequence.tokens).subspan(sequence.num_computed, num_tokens);
  chunk.blocks = sequence.table.blocks();
  chunk.wants_logits = num_tokens == sequence.num_owed();
  CAIRN_DCHECK(sequence.num_computed + num_tokens <= sequence.table.capacity_tokens());
  plan->num_tokens += num_tokens;
  plan->num_logit_rows += chunk.wants_logits ? 1 : 0;
  plan->chunks.push_back(chunk);
}

StepPlan Scheduler::Plan() const {
  StepPlan plan;
  for (const Sequence* sequence : running_) {
    if (!sequence->paused && IsDecoding(*sequence) && sequence->num_owed() > 0) {
      AddChunk(*sequence, sequence->num_owed(), &plan);
    }
  }
  int prefill_budget = options_.step_token_budget - plan.num_tokens;
  if (!plan.empty()) prefill_budget = std::min(prefill_budget, options_.mixed_prefill_tokens);
  for (const Sequence* sequence : running_) {
    if (sequence->paused || IsDecoding(*sequence)) continue;
    const int num_tokens = std::min(sequence->num_owed(), prefill_budget);
    if (num_tokens == 0) break;
    AddChunk(*sequence, num_tokens, &plan);
    prefill_budget -= num_tokens;
  }
  return plan;
}

void Scheduler::Commit(const StepPlan& plan) {
  for (const StepChunk& chunk : plan.chunks) {
    for (Sequence* sequence : running_) {
      if (sequence->id != chunk.sequence) continue;
      CAIRN_DCHECK(sequence->num_computed == chunk.first_position);
      const int known_blocks = sequence->num_computed / kBlockTokens;
      sequence->num_computed += static_cast<int>(chunk.tokens.size());
      const int whole_blocks = sequence->num_computed / kBlockTokens;
      if (prefixes_ == nullptr || whole_blocks == known_blocks) continue;
      prefixes_->Insert(sequence->salt,
                        std::span(sequence->tokens).first(whole_blocks * kBlockTokens),
                        &sequence->table);
    }
  }
}

void Scheduler::Remove(Sequence* sequence) {
  const size_t erased = std::erase(running_, sequence);
  CAIRN_CHECK(erased == 1);
  sequence->table.Reset();
}

}  // namespace cairn::engine
