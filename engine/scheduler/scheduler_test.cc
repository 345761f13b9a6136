#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

constexpr int kMixed = 16;

Sequence MakeSequence(SequenceId id, int num_prompt, int max_tokens) {
  Sequence sequence;
  sequence.id = id;
  sequence.num_prompt = num_prompt;
  sequence.max_tokens = max_tokens;
  for (int i = 0; i < num_prompt; ++i) {
    sequence.tokens.push_back(static_cast<TokenId>(id * 1000 + i));
  }
  return sequence;
}

TEST(SchedulerTest, APromptIsCutToTheBudgetAndOnlyItsLastChunkWantsLogits) {
  BlockPool pool(100);
  Scheduler scheduler({.max_running = 2, .step_token_budget = 32}, &pool);
  Sequence sequence = MakeSequence(1, 70, 10);
  ASSERT_TRUE(scheduler.Admit(&sequence));
  std::vector<int> sizes;
  for (StepPlan plan = scheduler.Plan(kMixed); !plan.empty(); plan = scheduler.Plan(kMixed)) {
    ASSERT_EQ(plan.chunks.size(), 1u);
    EXPECT_EQ(plan.chunks[0].first_position, sequence.num_computed);
    EXPECT_EQ(plan.chunks[0].tokens[0], sequence.tokens[sequence.num_computed]);
    EXPECT_EQ(plan.chunks[0].num_logits, sequence.num_computed + plan.num_rows == 70 ? 1 : 0);
    sizes.push_back(plan.num_rows);
    scheduler.Commit(plan);
  }
  EXPECT_EQ(sizes, (std::vector<int>{32, 32, 6}));
  scheduler.Remove(&sequence);
}

TEST(SchedulerTest, AStreamIsNotHeldUpByALongPrompt) {
  BlockPool pool(100);
  Scheduler scheduler({.max_running = 3, .step_token_budget = 64}, &pool);
  Sequence streaming = MakeSequence(1, 4, 20);
  ASSERT_TRUE(scheduler.Admit(&streaming));
  scheduler.Commit(scheduler.Plan(kMixed));
  streaming.tokens.push_back(7);
  Sequence prompt = MakeSequence(2, 200, 1);
  ASSERT_TRUE(scheduler.Admit(&prompt));

  const StepPlan plan = scheduler.Plan(kMixed);
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[0].sequence, 1u);
  EXPECT_EQ(plan.chunks[0].tokens.size(), 1u);
  EXPECT_EQ(plan.chunks[0].num_logits, 1);
  EXPECT_EQ(plan.chunks[1].tokens.size(), 16u);

  streaming.paused = true;  // its reader is behind: the prompt gets the whole step
  const StepPlan alone = scheduler.Plan(kMixed);
  ASSERT_EQ(alone.chunks.size(), 1u);
  EXPECT_EQ(alone.chunks[0].tokens.size(), 64u);
  scheduler.Remove(&streaming);
  scheduler.Remove(&prompt);
}

TEST(SchedulerTest, AKnownBeginningIsSharedAndNotComputedAgain) {
  BlockPool pool(8);
  PrefixCache prefixes(&pool);
  Scheduler scheduler({.max_running = 4}, &pool, &prefixes);
  Sequence first = MakeSequence(1, 40, 8);  // 3 blocks, two of them whole after the prompt
  ASSERT_TRUE(scheduler.Admit(&first));
  scheduler.Commit(scheduler.Plan(kMixed));
  Sequence second = MakeSequence(2, 40, 8), exact = MakeSequence(3, 32, 16);
  second.tokens = first.tokens;
  exact.tokens.assign(first.tokens.begin(), first.tokens.begin() + 32);
  ASSERT_TRUE(scheduler.Admit(&second));
  EXPECT_EQ(second.num_cached, 32);
  EXPECT_EQ(second.num_owed(), 8);
  EXPECT_EQ(pool.num_used(), 4);
  // Its last token is computed even though its block is known.
  ASSERT_TRUE(scheduler.Admit(&exact));
  EXPECT_EQ(exact.num_cached, 16);
  const StepPlan plan = scheduler.Plan(kMixed);
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[0].first_position, 32);
  EXPECT_EQ(plan.chunks[0].num_logits, 1);
  EXPECT_EQ(plan.chunks[1].first_position, 16);
  scheduler.Commit(plan);

  // The tokens that were sampled count too.
  for (int i = 0; i < 8; ++i) {
    first.tokens.push_back(i);
    scheduler.Commit(scheduler.Plan(kMixed));
  }
  Sequence turn = MakeSequence(4, 60, 4), stranger = MakeSequence(5, 40, 8);
  std::copy(first.tokens.begin(), first.tokens.end(), turn.tokens.begin());
  stranger.tokens = second.tokens;
  stranger.salt = "another tenant";
  scheduler.Remove(&first);
  scheduler.Remove(&second);
  scheduler.Remove(&exact);
  ASSERT_TRUE(scheduler.Admit(&turn));
  EXPECT_EQ(turn.num_cached, 48);
  scheduler.Remove(&turn);
  // What nobody uses gives way.
  EXPECT_EQ(pool.num_free(), 5);
  Sequence large = MakeSequence(6, 120, 8);  // 8 blocks
  ASSERT_TRUE(scheduler.Admit(&large));
  EXPECT_EQ(prefixes.num_blocks(), 0);
  scheduler.Remove(&large);
  ASSERT_TRUE(scheduler.Admit(&stranger));
  EXPECT_EQ(stranger.num_cached, 0);
  scheduler.Remove(&stranger);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SchedulerTest, AdmissionLeavesRoomToGrowAndNoMore) {
  BlockPool pool(10);
  Scheduler scheduler({.max_running = 8}, &pool);
  // 2 blocks and room for 4 more, of the 32 that it might need.
  Sequence long_answer = MakeSequence(1, 20, 140), short_answer = MakeSequence(2, 20, 30),
           another = MakeSequence(3, 1, 1);
  ASSERT_TRUE(scheduler.Admit(&long_answer));
  EXPECT_EQ(pool.num_used(), 2);
  ASSERT_TRUE(scheduler.Admit(&short_answer));  // 2 and 2
  EXPECT_FALSE(scheduler.Admit(&another));
  scheduler.Remove(&short_answer);
  EXPECT_TRUE(scheduler.Admit(&another));
  scheduler.Remove(&long_answer);
  scheduler.Remove(&another);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SchedulerTest, APreemptedSequenceComesBackForGood) {
  BlockPool pool(8);  // 128 tokens
  Scheduler scheduler({.max_running = 8}, &pool);
  Sequence old = MakeSequence(1, 48, 80), young = MakeSequence(2, 15, 113);
  old.max_tokens = 64;
  ASSERT_TRUE(scheduler.Admit(&old));
  // Admission would not take them both: as if the room had been used up since.
  young.max_tokens = 1;
  ASSERT_TRUE(scheduler.Admit(&young));
  young.max_tokens = 113;
  SequenceId preempted = 0;
  for (int i = 0; i < 200 && preempted == 0; ++i) {
    const StepPlan plan = scheduler.Plan(kMixed);
    if (!plan.preempted.empty()) preempted = plan.preempted[0];
    scheduler.Commit(plan);
    for (Sequence* s : {&old, &young}) {
      if (s->id != preempted && s->num_owed() == 0) s->tokens.push_back(7);
    }
  }
  ASSERT_EQ(preempted, 2u);  // the least work
  EXPECT_EQ(young.num_computed, 0);
  EXPECT_TRUE(young.table.blocks().empty());
  EXPECT_GT(young.tokens.size(), 15u);  // what it knows it knows
  EXPECT_FALSE(scheduler.Admit(&young));
  scheduler.Remove(&old);
  ASSERT_TRUE(scheduler.Admit(&young));
  EXPECT_EQ(pool.num_used(), 8);  // its whole need
  EXPECT_EQ(scheduler.Plan(kMixed).chunks[0].tokens.size(), young.tokens.size());
  scheduler.Remove(&young);
}

TEST(SchedulerTest, ForksShareBlocksAndWriteTheirOwn) {
  BlockPool pool(20);
  Scheduler scheduler({.max_running = 3}, &pool);
  Sequence parent = MakeSequence(1, 40, 8), a = MakeSequence(2, 40, 8), b = MakeSequence(3, 40, 8);
  a.tokens = b.tokens = parent.tokens;
  parent.num_forks = 2;
  ASSERT_TRUE(scheduler.Admit(&parent));
  Sequence late = MakeSequence(4, 1, 1);
  EXPECT_FALSE(scheduler.Admit(&late));  // the places are taken
  scheduler.Commit(scheduler.Plan(kMixed));
  scheduler.Fork(&parent, &a);
  scheduler.Fork(&parent, &b);
  EXPECT_EQ(pool.num_used(), 3);
  for (Sequence* s : {&parent, &a, &b}) s->tokens.push_back(static_cast<TokenId>(s->id));
  const StepPlan plan = scheduler.Plan(kMixed);
  // The third block holds 8 tokens of all and is written by each: all but the last one copy it.
  ASSERT_EQ(plan.copies.size(), 2u);
  EXPECT_EQ(plan.copies[0].from, plan.copies[1].from);
  EXPECT_EQ(pool.num_used(), 5);
  EXPECT_EQ(a.table.blocks()[1], parent.table.blocks()[1]);
  EXPECT_NE(a.table.blocks()[2], parent.table.blocks()[2]);
  EXPECT_NE(b.table.blocks()[2], parent.table.blocks()[2]);
  scheduler.Commit(plan);
  EXPECT_TRUE(scheduler.Plan(kMixed).empty());
  for (Sequence* s : {&parent, &a, &b}) scheduler.Remove(s);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SchedulerTest, DraftsGetWhatIsLeft) {
  BlockPool pool(3);
  Scheduler scheduler({.max_running = 2, .step_token_budget = 8, .max_logit_rows = 6}, &pool);
  Sequence a = MakeSequence(1, 4, 12), b = MakeSequence(2, 4, 12);
  ASSERT_TRUE(scheduler.Admit(&a));
  ASSERT_TRUE(scheduler.Admit(&b));
  scheduler.Commit(scheduler.Plan(kMixed));
  for (Sequence* s : {&a, &b}) {
    s->tokens.push_back(7);
    s->draft = {1, 2, 3};
  }
  const StepPlan plan = scheduler.Plan(kMixed);
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[0].draft.size(), 3u);
  EXPECT_EQ(plan.chunks[0].num_logits, 4);
  EXPECT_EQ(plan.chunks[1].draft.size(), 1u);  // six rows of logits in all
  EXPECT_EQ(plan.num_rows, 6);
  scheduler.Commit(plan);
  EXPECT_EQ(a.num_computed, 5);  // guesses count when they came true
  scheduler.Remove(&a);
  scheduler.Remove(&b);
}

TEST(SchedulerTest, LogitsOfAPromptComeInEveryRow) {
  BlockPool pool(10);
  PrefixCache prefixes(&pool);
  Scheduler scheduler({.max_running = 1, .max_logit_rows = 24}, &pool, &prefixes);
  for (int round = 0; round < 2; ++round) {  // the second time all of it is in the prefix cache
    Sequence sequence = MakeSequence(1, 40, 2);
    sequence.prompt_logits = true;
    ASSERT_TRUE(scheduler.Admit(&sequence));
    std::vector<int> rows;
    while (sequence.num_owed() > 0) {
      const StepPlan plan = scheduler.Plan(kMixed);
      EXPECT_EQ(plan.num_logit_rows, plan.num_rows);
      rows.push_back(plan.num_rows);
      scheduler.Commit(plan);
    }
    EXPECT_EQ(rows, (std::vector<int>{24, 16}));
    scheduler.Remove(&sequence);
  }
}

TEST(SchedulerTest, MaxRunningIsKept) {
  BlockPool pool(100);
  Scheduler scheduler({.max_running = 1}, &pool);
  Sequence a = MakeSequence(1, 1, 1);
  Sequence b = MakeSequence(2, 1, 1);
  ASSERT_TRUE(scheduler.Admit(&a));
  EXPECT_FALSE(scheduler.Admit(&b));
  EXPECT_EQ(pool.num_used(), 1);
  scheduler.Remove(&a);
}

TEST(SchedulerTest, NothingIsPlannedForASequenceThatOwesNothing) {
  BlockPool pool(10);
  Scheduler scheduler({}, &pool);
  Sequence sequence = MakeSequence(1, 3, 5);
  ASSERT_TRUE(scheduler.Admit(&sequence));
  scheduler.Commit(scheduler.Plan(kMixed));
  EXPECT_TRUE(scheduler.Plan(kMixed).empty());
  scheduler.Remove(&sequence);
}

// Random arrivals, forks, guesses, pauses and cancellations on a cache that is too small: tokens
// are computed in order, budgets hold, streams that owe a token are in every plan, nobody is thrown
// out twice, and all blocks come back.
TEST(SchedulerTest, RandomTrafficKeepsEveryPromise) {
  std::mt19937 rng(5);
  int num_preempted = 0, num_forked = 0, num_copies = 0;
  for (int round = 0; round < 200; ++round) {
    BlockPool pool(15 + static_cast<int>(rng() % 20));  // every request fits alone
    PrefixCache prefixes(&pool);
    SchedulerOptions options;
    options.max_running = 1 + static_cast<int>(rng() % 6);
    options.step_token_budget = options.max_running + static_cast<int>(rng() % 60);
    options.max_logit_rows = options.max_running + static_cast<int>(rng() % 10);
    const int mixed = 1 + static_cast<int>(rng() % 20);
    Scheduler scheduler(options, &pool, round % 2 == 0 ? &prefixes : nullptr);
    std::vector<std::unique_ptr<Sequence>> running, preempted;
    SequenceId next_id = 1;
    for (int step = 0; step < 300; ++step) {
      auto arrival = std::make_unique<Sequence>(MakeSequence(
          next_id, 1 + static_cast<int>(rng() % 100), 1 + static_cast<int>(rng() % 130)));
      if (rng() % 2 == 0) arrival->num_forks = static_cast<int>(rng() % options.max_running);
      if (!preempted.empty()) {
        if (scheduler.Admit(preempted.front().get())) {
          running.push_back(std::move(preempted.front()));
          preempted.erase(preempted.begin());
        }
      } else if (rng() % 3 == 0 && scheduler.Admit(arrival.get())) {
        ++next_id;
        running.push_back(std::move(arrival));
      }
      for (auto& sequence : running) {
        sequence->paused = rng() % 8 == 0;
        sequence->draft.assign(rng() % 4, 7);
      }

      const StepPlan plan = scheduler.Plan(mixed);
      num_copies += static_cast<int>(plan.copies.size());
      for (const SequenceId id : plan.preempted) {
        const auto it = std::ranges::find_if(running, [&](auto& s) { return s->id == id; });
        ASSERT_NE(it, running.end());
        ASSERT_EQ((*it)->num_preemptions, 1);
        preempted.push_back(std::move(*it));
        running.erase(it);
        ++num_preempted;
      }
      int num_rows = 0, num_prefill = 0, num_logits = 0;
      bool decoding = false;
      for (const StepChunk& chunk : plan.chunks) {
        const auto it =
            std::ranges::find_if(running, [&](auto& s) { return s->id == chunk.sequence; });
        ASSERT_NE(it, running.end());
        const Sequence& s = **it;
        ASSERT_FALSE(s.paused);
        ASSERT_EQ(chunk.first_position, s.num_computed);
        ASSERT_FALSE(chunk.tokens.empty());
        ASSERT_TRUE(std::ranges::equal(
            chunk.tokens, std::span(s.tokens).subspan(s.num_computed, chunk.tokens.size())));
        ASSERT_LE(s.num_computed + int64_t{chunk.num_rows()},
                  static_cast<int64_t>(chunk.blocks.size()) * kBlockTokens);
        ASSERT_LE(s.num_computed + chunk.num_rows(), s.num_prompt + s.max_tokens);
        const bool last = static_cast<int>(chunk.tokens.size()) == s.num_owed();
        ASSERT_EQ(chunk.num_logits, last ? 1 + static_cast<int>(chunk.draft.size()) : 0);
        // Nobody else reads what it writes.
        for (int at = chunk.first_position; at < chunk.first_position + chunk.num_rows(); ++at) {
          ASSERT_EQ(pool.ref_count(chunk.blocks[at / kBlockTokens]), 1);
        }
        num_rows += chunk.num_rows();
        num_logits += chunk.num_logits;
        if (s.decoding()) {
          decoding = true;
        } else {
          ASSERT_TRUE(chunk.draft.empty());
          num_prefill += static_cast<int>(chunk.tokens.size());
        }
      }
      ASSERT_EQ(num_rows, plan.num_rows);
      ASSERT_EQ(num_logits, plan.num_logit_rows);
      ASSERT_LE(num_rows, options.step_token_budget);
      ASSERT_LE(num_logits, options.max_logit_rows);
      if (decoding) {
        ASSERT_LE(num_prefill, mixed);
      }
      for (auto& s : running) {
        const bool planned =
            std::ranges::any_of(plan.chunks, [&](auto& c) { return c.sequence == s->id; });
        if (!s->paused && s->decoding()) {
          ASSERT_TRUE(planned);
        }
      }
      if (rng() % 10 != 0) {  // else the step was abandoned and nothing counts
        scheduler.Commit(plan);
        for (size_t i = 0; i < running.size(); ++i) {
          Sequence& s = *running[i];
          if (s.num_owed() > 0) continue;
          while (s.num_forks > 0) {
            auto child = std::make_unique<Sequence>(MakeSequence(next_id++, 1, s.max_tokens));
            child->tokens = s.tokens;
            child->num_prompt = s.num_prompt;
            scheduler.Fork(&s, child.get());
            running.push_back(std::move(child));
            ++num_forked;
          }
        }
        for (auto& s : running) {
          if (s->num_owed() > 0) continue;
          s->tokens.push_back(static_cast<TokenId>(rng() % 100));
          const auto chunk = std::ranges::find(plan.chunks, s->id, &StepChunk::sequence);
          if (chunk == plan.chunks.end()) continue;
          for (size_t right = rng() % (chunk->draft.size() + 1); right > 0; --right) {
            if (s->num_left() == 0) break;
            ++s->num_computed;
            s->tokens.push_back(7);
          }
        }
      }
      const auto over = [&](std::unique_ptr<Sequence>& s) {
        return s->num_left() <= 0 || rng() % 300 == 0;
      };
      std::erase_if(running, [&](std::unique_ptr<Sequence>& s) {
        if (!over(s)) return false;
        scheduler.Remove(s.get());
        return true;
      });
      ASSERT_TRUE(pool.Consistent());
      if (running.empty()) {
        ASSERT_EQ(pool.num_used(), prefixes.num_blocks());
      }
    }
    for (auto& s : running) scheduler.Remove(s.get());
    ASSERT_EQ(pool.num_used(), prefixes.num_blocks());
  }
  EXPECT_GT(num_preempted, 50);
  EXPECT_GT(num_forked, 100);
  EXPECT_GT(num_copies, 100);
}

// Twice as much text as the cache holds, all at once: the work thrown away stays small.
TEST(SchedulerTest, TwiceTheDemandIsNoThrash) {
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937 rng(seed);
    BlockPool pool(64);  // 1,024 tokens
    PrefixCache prefixes(&pool);
    Scheduler scheduler({.max_running = 16, .step_token_budget = 64}, &pool, &prefixes);
    std::vector<std::unique_ptr<Sequence>> waiting, running, preempted;
    int64_t demand = 0, computed = 0;
    for (SequenceId id = 1; demand < 2 * 1024; ++id) {
      waiting.push_back(std::make_unique<Sequence>(MakeSequence(
          id, 16 + static_cast<int>(rng() % 64), 100 + static_cast<int>(rng() % 200))));
      demand += waiting.back()->num_prompt + waiting.back()->max_tokens;
    }
    int64_t steps = 0;
    while (!waiting.empty() || !running.empty() || !preempted.empty()) {
      ASSERT_LT(++steps, 10'000);
      for (auto* queue : {&preempted, &waiting}) {
        while (!queue->empty() && scheduler.Admit(queue->front().get())) {
          running.push_back(std::move(queue->front()));
          queue->erase(queue->begin());
        }
        if (!queue->empty()) break;
      }
      const StepPlan plan = scheduler.Plan(kMixed);
      for (const SequenceId id : plan.preempted) {
        const auto it = std::ranges::find_if(running, [&](auto& s) { return s->id == id; });
        preempted.push_back(std::move(*it));
        running.erase(it);
      }
      computed += plan.num_rows;
      scheduler.Commit(plan);
      for (auto& s : running) {
        if (s->num_owed() == 0) s->tokens.push_back(static_cast<TokenId>(rng() % 100));
      }
      std::erase_if(running, [&](std::unique_ptr<Sequence>& s) {
        if (s->num_left() > 0) return false;
        scheduler.Remove(s.get());
        return true;
      });
    }
    EXPECT_LE(computed, demand * 3 / 2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace cairn::engine
