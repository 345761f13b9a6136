#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "engine/scheduler/request_queue.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

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
  for (StepPlan plan = scheduler.Plan(); !plan.empty(); plan = scheduler.Plan()) {
    ASSERT_EQ(plan.chunks.size(), 1u);
    EXPECT_EQ(plan.chunks[0].first_position, sequence.num_computed);
    EXPECT_EQ(plan.chunks[0].tokens[0], sequence.tokens[sequence.num_computed]);
    EXPECT_EQ(plan.chunks[0].wants_logits, sequence.num_computed + plan.num_tokens == 70);
    sizes.push_back(plan.num_tokens);
    scheduler.Commit(plan);
  }
  EXPECT_EQ(sizes, (std::vector<int>{32, 32, 6}));
  scheduler.Remove(&sequence);
}

TEST(SchedulerTest, AStreamIsNotHeldUpByALongPrompt) {
  BlockPool pool(100);
  Scheduler scheduler({.max_running = 3, .step_token_budget = 64, .mixed_prefill_tokens = 16},
                      &pool);
  Sequence streaming = MakeSequence(1, 4, 20);
  ASSERT_TRUE(scheduler.Admit(&streaming));
  scheduler.Commit(scheduler.Plan());
  streaming.tokens.push_back(7);
  Sequence prompt = MakeSequence(2, 200, 1);
  ASSERT_TRUE(scheduler.Admit(&prompt));

  const StepPlan plan = scheduler.Plan();
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[0].sequence, 1u);
  EXPECT_EQ(plan.chunks[0].tokens.size(), 1u);
  EXPECT_TRUE(plan.chunks[0].wants_logits);
  EXPECT_EQ(plan.chunks[1].tokens.size(), 16u);

  streaming.paused = true;  // its reader is behind: the prompt gets the whole step
  const StepPlan alone = scheduler.Plan();
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
  scheduler.Commit(scheduler.Plan());
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
  const StepPlan plan = scheduler.Plan();
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[0].first_position, 32);
  EXPECT_TRUE(plan.chunks[0].wants_logits);
  EXPECT_EQ(plan.chunks[1].first_position, 16);
  scheduler.Commit(plan);

  // The tokens that were sampled count too.
  for (int i = 0; i < 8; ++i) {
    first.tokens.push_back(i);
    scheduler.Commit(scheduler.Plan());
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
  Sequence large = MakeSequence(6, 100, 28);  // 8 blocks
  ASSERT_TRUE(scheduler.Admit(&large));
  EXPECT_EQ(prefixes.num_blocks(), 0);
  scheduler.Remove(&large);
  ASSERT_TRUE(scheduler.Admit(&stranger));
  EXPECT_EQ(stranger.num_cached, 0);
  scheduler.Remove(&stranger);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SchedulerTest, AdmissionReservesTheWholeRequest) {
  BlockPool pool(4);  // 64 tokens
  Scheduler scheduler({.max_running = 8}, &pool);
  Sequence large = MakeSequence(1, 40, 8);   // 48 tokens: 3 blocks
  Sequence small = MakeSequence(2, 10, 10);  // 20 tokens: 2 blocks
  ASSERT_TRUE(scheduler.Admit(&large));
  EXPECT_FALSE(scheduler.Admit(&small));
  EXPECT_EQ(pool.num_free(), 1);
  scheduler.Remove(&large);
  EXPECT_TRUE(scheduler.Admit(&small));
  scheduler.Remove(&small);
  EXPECT_EQ(pool.num_used(), 0);
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
  scheduler.Commit(scheduler.Plan());
  EXPECT_TRUE(scheduler.Plan().empty());
  scheduler.Remove(&sequence);
}

// Random arrivals, cancellations and pauses: each token is computed once and in order, budgets
// hold, streams that owe a token are in every plan, and all blocks come back.
TEST(SchedulerTest, RandomTrafficKeepsEveryPromise) {
  std::mt19937 rng(5);
  for (int round = 0; round < 100; ++round) {
    BlockPool pool(1 + static_cast<int>(rng() % 60));
    SchedulerOptions options;
    options.max_running = 1 + static_cast<int>(rng() % 6);
    options.step_token_budget = options.max_running + static_cast<int>(rng() % 60);
    options.mixed_prefill_tokens = 1 + static_cast<int>(rng() % 20);
    Scheduler scheduler(options, &pool);
    std::vector<std::unique_ptr<Sequence>> running;
    SequenceId next_id = 1;
    for (int step = 0; step < 200; ++step) {
      auto arrival = std::make_unique<Sequence>(MakeSequence(
          next_id, 1 + static_cast<int>(rng() % 100), 1 + static_cast<int>(rng() % 30)));
      if (rng() % 3 == 0 && scheduler.Admit(arrival.get())) {
        ++next_id;
        running.push_back(std::move(arrival));
      }
      for (auto& sequence : running) sequence->paused = rng() % 8 == 0;

      const StepPlan plan = scheduler.Plan();
      int num_tokens = 0, num_prefill = 0, num_logits = 0;
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
        ASSERT_LE(s.num_computed + static_cast<int64_t>(chunk.tokens.size()),
                  static_cast<int64_t>(chunk.blocks.size()) * kBlockTokens);
        ASSERT_EQ(chunk.wants_logits, static_cast<int>(chunk.tokens.size()) == s.num_owed());
        num_tokens += static_cast<int>(chunk.tokens.size());
        num_logits += chunk.wants_logits ? 1 : 0;
        if (s.num_computed >= s.num_prompt) {
          decoding = true;
        } else {
          num_prefill += static_cast<int>(chunk.tokens.size());
        }
      }
      ASSERT_EQ(num_tokens, plan.num_tokens);
      ASSERT_EQ(num_logits, plan.num_logit_rows);
      ASSERT_LE(num_tokens, options.step_token_budget);
      if (decoding) {
        ASSERT_LE(num_prefill, options.mixed_prefill_tokens);
      }
      for (auto& s : running) {
        const bool planned =
            std::ranges::any_of(plan.chunks, [&](auto& c) { return c.sequence == s->id; });
        if (!s->paused && s->num_computed >= s->num_prompt && s->num_owed() > 0) {
          ASSERT_TRUE(planned);
        }
      }
      if (rng() % 10 != 0) {  // else the step was abandoned and nothing counts
        scheduler.Commit(plan);
        for (auto& s : running) {
          if (s->num_owed() == 0) s->tokens.push_back(static_cast<TokenId>(rng() % 100));
        }
      }
      std::erase_if(running, [&](std::unique_ptr<Sequence>& s) {
        const bool done = static_cast<int>(s->tokens.size()) == s->num_prompt + s->max_tokens;
        if (!done && rng() % 50 != 0) return false;
        scheduler.Remove(s.get());
        return true;
      });
      ASSERT_TRUE(pool.Consistent());
      if (running.empty()) {
        ASSERT_EQ(pool.num_used(), 0);
      }
    }
    for (auto& s : running) scheduler.Remove(s.get());
    ASSERT_EQ(pool.num_free(), pool.num_blocks());
  }
}

TEST(RequestQueueTest, IsBoundedAndInOrder) {
  RequestQueue<int> queue(2);
  EXPECT_EQ(queue.Front(), nullptr);
  EXPECT_TRUE(queue.Push(std::make_shared<int>(1)));
  EXPECT_TRUE(queue.Push(std::make_shared<int>(2)));
  EXPECT_FALSE(queue.Push(std::make_shared<int>(3)));
  EXPECT_EQ(*queue.Front(), 1);
  queue.PopFront();
  EXPECT_EQ(*queue.Front(), 2);
  EXPECT_TRUE(queue.Push(std::make_shared<int>(4)));
}

TEST(RequestQueueTest, RemoveIfTakesFromAnyPlaceAndKeepsTheOrder) {
  RequestQueue<int> queue(5);
  for (int i = 1; i <= 5; ++i) queue.Push(std::make_shared<int>(i));
  EXPECT_EQ(queue.RemoveIf([](const int& i) { return i % 2 == 0; }).size(), 2u);
  std::vector<int> left;
  while (queue.Front() != nullptr) {
    left.push_back(*queue.Front());
    queue.PopFront();
  }
  EXPECT_EQ(left, (std::vector<int>{1, 3, 5}));
}

}  // namespace
}  // namespace cairn::engine
