#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/check.h"

namespace cairn::engine {
namespace {

// Room that admission leaves each running sequence: 64 tokens, a long sentence. More would keep
// others waiting for text that is mostly never written, since max_tokens is a limit and not a plan.
constexpr int64_t kGrowthBlocks = 4;

int64_t FullNeed(const Sequence& sequence) {
  return BlocksForTokens(int64_t{sequence.num_prompt} + sequence.max_tokens);
}

int64_t Growth(const Sequence& sequence, int64_t num_blocks) {
  return std::clamp(FullNeed(sequence) - num_blocks, int64_t{0}, kGrowthBlocks);
}

bool MayBePreempted(const Sequence& sequence) { return sequence.num_preemptions == 0; }

}  // namespace

struct Scheduler::Share {
  Sequence* sequence = nullptr;
  int num_tokens = 0;  // known ones
  int num_draft = 0;
};

Scheduler::Scheduler(const SchedulerOptions& options, BlockPool* pool, PrefixCache* prefixes)
    : options_(options), pool_(pool), prefixes_(prefixes) {
  CAIRN_CHECK(options.max_running > 0 && options.max_running <= options.step_token_budget);
  CAIRN_CHECK(options.max_running <= options.max_logit_rows);
}

int64_t Scheduler::NumAvailable() const {
  return pool_->num_free() + (prefixes_ == nullptr ? 0 : prefixes_->num_idle());
}

bool Scheduler::Admit(Sequence* sequence) {
  CAIRN_CHECK(sequence->num_prompt > 0 && sequence->max_tokens > 0 && sequence->num_computed == 0);
  CAIRN_CHECK(FullNeed(*sequence) <= pool_->num_blocks());
  int places = 1 + sequence->num_forks;
  for (const Sequence* other : running_) places += 1 + other->num_forks;
  if (places > options_.max_running) return false;

  const std::span<const TokenId> tokens = sequence->tokens;
  BlockTable table;
  if (prefixes_ != nullptr && !sequence->prompt_logits) {
    // The last token is computed in any case: its logits are wanted.
    table = prefixes_->Match(sequence->salt, tokens.first(tokens.size() - 1));
  }
  const int64_t known = static_cast<int64_t>(table.blocks().size());
  const int64_t need = MayBePreempted(*sequence)
                           ? BlocksForTokens(static_cast<int64_t>(tokens.size()))
                           : FullNeed(*sequence);
  int64_t growth = Growth(*sequence, need);
  for (const Sequence* other : running_) {
    growth += Growth(*other, static_cast<int64_t>(other->table.blocks().size()));
  }
  // Alone it fits, as required above, once the prefix cache gives way.
  if (!running_.empty() && need - known + growth > NumAvailable()) return false;
  if (prefixes_ != nullptr && !prefixes_->Reclaim(need - known)) return false;
  absl::StatusOr<BlockTable> rest = pool_->Allocate(need - known);
  if (!rest.ok()) return false;
  sequence->num_computed = static_cast<int>(table.capacity_tokens());
  sequence->num_published = static_cast<int>(known);
  if (sequence->num_preemptions == 0) sequence->num_cached = sequence->num_computed;
  table.Append(*std::move(rest));
  sequence->table = std::move(table);
  running_.push_back(sequence);
  return true;
}

std::vector<Scheduler::Share> Scheduler::ShareOut(int mixed_prefill_tokens) const {
  std::vector<Share> shares;
  int rows = options_.step_token_budget;
  for (Sequence* sequence : running_) {
    Share share{sequence};
    if (!sequence->paused && sequence->decoding()) {
      share.num_tokens = 1;
      --rows;
    }
    shares.push_back(share);
  }
  const bool mixed = rows < options_.step_token_budget;
  int prefill_rows = mixed ? std::min(rows, std::max(1, mixed_prefill_tokens)) : rows;
  // Beyond one for everybody.
  int logit_rows = options_.max_logit_rows - num_running();
  for (Share& share : shares) {
    const Sequence& sequence = *share.sequence;
    if (sequence.paused || sequence.decoding()) continue;
    share.num_tokens = std::min(sequence.num_owed(), prefill_rows);
    if (sequence.prompt_logits && sequence.num_computed < sequence.num_prompt) {
      share.num_tokens = std::min(share.num_tokens, logit_rows + 1);
      logit_rows -= std::max(0, share.num_tokens - 1);
    }
    prefill_rows -= share.num_tokens;
    rows -= share.num_tokens;
  }
  for (Share& share : shares) {
    const Sequence& sequence = *share.sequence;
    if (sequence.paused || !sequence.decoding()) continue;
    share.num_draft = std::min(
        {static_cast<int>(sequence.draft.size()), sequence.num_left() - 1, rows, logit_rows});
    share.num_draft = std::max(0, share.num_draft);
    rows -= share.num_draft;
    logit_rows -= share.num_draft;
  }
  return shares;
}

bool Scheduler::Grow(const Share& share, StepPlan* plan) {
  Sequence& sequence = *share.sequence;
  const std::span<const BlockId> blocks = sequence.table.blocks();
  const int64_t more = std::max<int64_t>(
      0, BlocksForTokens(int64_t{sequence.num_computed} + share.num_tokens + share.num_draft) -
             static_cast<int64_t>(blocks.size()));
  const size_t at = sequence.num_computed / kBlockTokens;
  const bool copy = at < blocks.size() && pool_->ref_count(blocks[at]) > 1;
  const int64_t need = more + (copy ? 1 : 0);
  if (need == 0) return true;
  if (prefixes_ != nullptr && !prefixes_->Reclaim(need)) return false;
  absl::StatusOr<BlockTable> fresh = pool_->Allocate(more);
  if (!fresh.ok() || pool_->num_free() < need - more) return false;
  sequence.table.Append(*std::move(fresh));
  if (copy) {
    BlockTable own = *pool_->Allocate(1);
    plan->copies.push_back({sequence.table.blocks()[at], own.blocks()[0]});
    sequence.table.Replace(at, std::move(own));
  }
  return true;
}

size_t Scheduler::Preempt(std::vector<Share>* shares, StepPlan* plan) {
  const auto lost_work = [](const Share& share) {
    return std::tuple(!MayBePreempted(*share.sequence), !share.sequence->paused,
                      share.sequence->num_computed);
  };
  // Among equals the youngest.
  const auto victim =
      std::min_element(shares->rbegin(), shares->rend(),
                       [&](const Share& a, const Share& b) { return lost_work(a) < lost_work(b); });
  // Whoever may not be preempted has all its blocks and asks for none; and the last one that may
  // be fits alone beside them, because it was not there when they reserved theirs.
  Sequence& sequence = *victim->sequence;
  CAIRN_CHECK(MayBePreempted(sequence));
  plan->preempted.push_back(sequence.id);
  ++sequence.num_preemptions;
  sequence.num_computed = sequence.num_published = 0;
  sequence.draft.clear();
  Remove(&sequence);
  const auto erased = shares->erase(std::next(victim).base());
  return erased - shares->begin();
}

void Scheduler::AddChunk(const Share& share, StepPlan* plan) {
  const Sequence& sequence = *share.sequence;
  StepChunk chunk;
  chunk.sequence = sequence.id;
  chunk.first_position = sequence.num_computed;
  chunk.tokens = std::span(sequence.tokens).subspan(sequence.num_computed, share.num_tokens);
  chunk.draft = std::span(sequence.draft).first(share.num_draft);
  chunk.blocks = sequence.table.blocks();
  if (sequence.prompt_logits && sequence.num_computed < sequence.num_prompt) {
    chunk.num_logits = share.num_tokens;
  } else if (share.num_tokens == sequence.num_owed()) {
    chunk.num_logits = 1 + share.num_draft;
  }
  CAIRN_DCHECK(sequence.num_computed + chunk.num_rows() <= sequence.table.capacity_tokens());
  plan->num_rows += chunk.num_rows();
  plan->num_logit_rows += chunk.num_logits;
  plan->chunks.push_back(chunk);
}

StepPlan Scheduler::Plan(int mixed_prefill_tokens) {
  StepPlan plan;
  std::vector<Share> shares = ShareOut(mixed_prefill_tokens);
  for (size_t i = 0; i < shares.size();) {
    if (shares[i].num_tokens == 0 || Grow(shares[i], &plan)) {
      ++i;
    } else if (shares[i].num_draft > 0) {
      shares[i].num_draft = 0;  // nobody is thrown out for a guess
    } else {
      if (Preempt(&shares, &plan) < i) --i;
    }
  }
  for (const Share& share : shares) {
    if (share.num_tokens > 0) AddChunk(share, &plan);
  }
  return plan;
}

void Scheduler::Commit(const StepPlan& plan) {
  for (const StepChunk& chunk : plan.chunks) {
    const auto at = std::ranges::find(running_, chunk.sequence, &Sequence::id);
    CAIRN_CHECK(at != running_.end() && (*at)->num_computed == chunk.first_position);
    Sequence& sequence = **at;
    sequence.num_computed += static_cast<int>(chunk.tokens.size());
    const int whole_blocks = sequence.num_computed / kBlockTokens;
    if (prefixes_ == nullptr || whole_blocks == sequence.num_published) continue;
    prefixes_->Insert(sequence.salt, std::span(sequence.tokens).first(whole_blocks * kBlockTokens),
                      &sequence.table);
    sequence.num_published = whole_blocks;
  }
}

void Scheduler::Fork(Sequence* parent, Sequence* child) {
  CAIRN_CHECK(parent->num_forks > 0 && parent->num_owed() == 0);
  CAIRN_CHECK(child->tokens.size() == parent->tokens.size());
  --parent->num_forks;
  child->table = pool_->Share(parent->table.blocks().first(BlocksForTokens(parent->num_computed)));
  child->num_computed = parent->num_computed;
  child->num_cached = parent->num_cached;
  child->num_published = parent->num_published;
  running_.push_back(child);
}

void Scheduler::Remove(Sequence* sequence) {
  const size_t erased = std::erase(running_, sequence);
  CAIRN_CHECK(erased == 1);
  sequence->table.Reset();
}

}  // namespace cairn::engine
