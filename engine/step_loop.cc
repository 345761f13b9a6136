#include "engine/step_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "common/check.h"
#include "common/log.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

// What a client that found the queue full is told to wait: about the time of a short answer.
constexpr absl::Duration kQueueFullRetry = absl::Seconds(2);

// Prompt tokens beside streams until the first steps were timed.
constexpr int kFirstMixedTokens = 16;

absl::Status ShuttingDown() { return absl::CancelledError("the engine is shutting down"); }

bool Contains(std::span<const TokenId> tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

StepLoop::StepLoop(const StepLoopOptions& options, std::unique_ptr<QueuePolicy> policy,
                   BlockPool* pool, PrefixCache* prefixes, Runner* runner)
    : options_(options),
      pool_(*pool),
      prefixes_(prefixes),
      runner_(*runner),
      scheduler_(options.scheduler, pool, prefixes),
      queue_(options.max_queue, std::move(policy)) {
  PublishStats();
  thread_ = std::thread([this] { Main(); });
}

void StepLoop::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    work_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

absl::Status StepLoop::Submit(std::shared_ptr<Request> request) {
  const QueueTicket ticket{
      .priority = request->options.priority,
      .num_prompt_tokens = static_cast<int>(request->choices[0].sequence.tokens.size()),
      .queued_at = absl::Now()};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return ShuttingDown();
    if (!queue_.Push(ticket, std::move(request))) {
      return WithRetryAfter(WithReason(absl::ResourceExhaustedError(StrCat(
                                           options_.max_queue, " requests are waiting already")),
                                       "QUEUE_FULL"),
                            kQueueFullRetry);
    }
    work_ = true;
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void StepLoop::Wake() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    work_ = true;
  }
  wake_.notify_one();
}

EngineStats StepLoop::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  EngineStats stats = published_;
  stats.queued = static_cast<int>(queue_.size());
  return stats;
}

void StepLoop::Main() {
  while (true) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) break;
      work_ = false;
    }
    DropClosed();
    AdmitWaiting();
    const bool computed = RunStep();
    if (!computed) CheckIdle();
    PublishStats();
    if (!computed) WaitForWork();
  }
  for (const Running& running : running_) {
    scheduler_.Remove(&running.choice->sequence);
    running.request->stream.Finish(ShuttingDown());
  }
  for (const Running& running : preempted_) running.request->stream.Finish(ShuttingDown());
  for (const std::shared_ptr<Request>& request :
       queue_.RemoveIf([](const Request&) { return true; })) {
    request->stream.Finish(ShuttingDown());
  }
}

void StepLoop::DropClosed() {
  const auto gone = [](const Request& request) { return request.gone(0); };
  for (const std::shared_ptr<Request>& request : queue_.RemoveIf(gone)) {
    request->stream.Finish(absl::CancelledError("cancelled while waiting"));
  }
  const absl::Time now = absl::Now();
  for (const Running& running : running_) {
    Request& request = *running.request;
    if (now - request.paused_at < options_.reader_timeout) continue;
    Fail(&request,
         WithReason(absl::AbortedError(StrCat("the reader has taken nothing for ",
                                              absl::FormatDuration(options_.reader_timeout))),
                    "READER_STALLED"));
  }
  DropClosed(&running_, /*admitted=*/true);
  DropClosed(&preempted_, /*admitted=*/false);
}

void StepLoop::DropClosed(std::vector<Running>* list, bool admitted) {
  std::erase_if(*list, [&](const Running& running) {
    Request& request = *running.request;
    const bool closed = request.gone(running.choice->index);
    if (!closed && !request.failed) return false;
    if (closed) running.choice->finish_reason = FinishReason::kCancelled;
    if (admitted) scheduler_.Remove(&running.choice->sequence);
    // With the choice that computes the prompt go those that wait for it.
    request.num_unfinished -= 1 + running.choice->sequence.num_forks;
    if (!request.context.Check().ok()) {
      request.stream.Finish(absl::CancelledError("cancelled while running"));
    } else if (request.num_unfinished == 0) {
      request.stream.Finish(absl::OkStatus());
    }
    return true;
  });
}

bool StepLoop::AdmitPreempted() {
  while (!preempted_.empty()) {
    if (!scheduler_.Admit(&preempted_.front().choice->sequence)) return false;
    running_.push_back(std::move(preempted_.front()));
    preempted_.erase(preempted_.begin());
  }
  return true;
}

void StepLoop::AdmitWaiting() {
  if (!AdmitPreempted()) return;
  while (const std::shared_ptr<Request> request = queue_.Next(absl::Now())) {
    Choice& choice = request->choices[0];
    choice.sequence.id = next_id_;
    if (!scheduler_.Admit(&choice.sequence)) break;
    ++next_id_;
    request->num_cached = choice.sequence.num_cached;
    counts_.cached_prompt_tokens += request->num_cached;
    request->admitted_at = absl::Now();
    queue_.RemoveIf([&](const Request& other) { return &other == request.get(); });
    running_.push_back({request, &choice});
  }
}

void StepLoop::Prepare(const Running& running) {
  Request& request = *running.request;
  Sequence& sequence = running.choice->sequence;
  const int room = static_cast<int>(request.stream.room()) / request.num_unfinished;
  const bool was_paused = request.paused_at != absl::InfiniteFuture();
  sequence.paused = room == 0;
  if (sequence.paused != was_paused) {
    request.paused_at = sequence.paused ? absl::Now() : absl::InfiniteFuture();
  }
  sequence.draft.clear();
  if (sequence.paused || !sequence.decoding() || !request.options.prompt_lookup) return;
  const int most = std::min({kMaxDraft, room - 1, sequence.num_left() - 1});
  sequence.draft = running.choice->lookup.Draft(sequence.tokens, most, cost_.RowShare());
}

bool StepLoop::RunStep() {
  int num_decoding = 0;
  for (const Running& running : running_) {
    Prepare(running);
    num_decoding += running.choice->sequence.decoding() ? 1 : 0;
  }
  const StepPlan plan =
      scheduler_.Plan(cost_.RowsWithin(options_.max_stall, num_decoding, kFirstMixedTokens));
  for (const SequenceId id : plan.preempted) {
    const auto at = std::ranges::find(
        running_, id, [](const Running& running) { return running.choice->sequence.id; });
    preempted_.push_back(std::move(*at));
    running_.erase(at);
    ++counts_.preemptions;
  }
  if (plan.empty()) return !plan.preempted.empty();
  const absl::Time begin = absl::Now();
  const bool completed = runner_.Run(plan, [&] {
    return std::all_of(plan.chunks.begin(), plan.chunks.end(), [this](const StepChunk& chunk) {
      const Running running = Find(chunk.sequence);
      return running.request->gone(running.choice->index);
    });
  });
  if (!completed) return true;  // the next turn drops them
  cost_.Observe(plan.num_rows, absl::Now() - begin);
  ++counts_.steps;
  scheduler_.Commit(plan);
  int row = 0;
  for (const StepChunk& chunk : plan.chunks) {
    const Sequence& sequence = Find(chunk.sequence).choice->sequence;
    counts_.prompt_tokens += std::clamp<int64_t>(sequence.num_prompt - chunk.first_position, 0,
                                                 static_cast<int64_t>(chunk.tokens.size()));
    counts_.draft_tokens += static_cast<int64_t>(chunk.draft.size());
    if (chunk.num_logits > 0) TakeLogits(chunk, row);
    row += chunk.num_logits;
  }
  return true;
}

void StepLoop::TakeLogits(const StepChunk& chunk, int first_row) {
  const Running running = Find(chunk.sequence);
  Sequence& sequence = running.choice->sequence;
  if (sequence.prompt_logits) TakePromptLogprobs(chunk, first_row, running.request.get());
  if (sequence.num_owed() > 0) return;
  const int num_draft = static_cast<int>(chunk.draft.size());
  int row = first_row + chunk.num_logits - 1 - num_draft;
  if (sequence.num_forks > 0) {
    ForkChoices(running);
    for (Choice& choice : running.request->choices) {
      SampleNext({running.request, &choice}, runner_.Logits(row));
    }
    return;
  }
  // The drafts were copied: the sequence changes under the chunk's spans.
  const std::vector<TokenId> draft(chunk.draft.begin(), chunk.draft.end());
  for (int i = 0; SampleNext(running, runner_.Logits(row)); ++i, ++row) {
    if (i == num_draft || sequence.tokens.back() != draft[i]) return;
    ++sequence.num_computed;  // the guess was right, so its keys and values stand
    ++counts_.accepted_draft_tokens;
  }
}

void StepLoop::TakePromptLogprobs(const StepChunk& chunk, int first_row, Request* request) {
  Sequence& sequence = request->choices[0].sequence;
  for (int i = 0; i < static_cast<int>(chunk.tokens.size()); ++i) {
    const int next = chunk.first_position + i + 1;
    // After a preemption some are known already.
    if (next >= sequence.num_prompt) break;
    if (next <= static_cast<int>(request->prompt_logprobs.size())) continue;
    request->prompt_logprobs.push_back(ComputeLogprob(
        runner_.Logits(first_row + i), sequence.tokens[next], request->options.top_logprobs));
  }
  if (sequence.num_computed >= sequence.num_prompt) sequence.prompt_logits = false;
}

void StepLoop::ForkChoices(const Running& running) {
  Request& request = *running.request;
  for (Choice& choice : std::span(request.choices).subspan(1)) {
    choice.sequence.id = next_id_++;
    scheduler_.Fork(&running.choice->sequence, &choice.sequence);
    running_.push_back({running.request, &choice});
  }
}

bool StepLoop::SampleNext(const Running& running, std::span<const float> logits) {
  Request& request = *running.request;
  Sequence& sequence = running.choice->sequence;
  const int num_sampled = static_cast<int>(sequence.tokens.size()) - sequence.num_prompt;
  const bool may_end = num_sampled >= request.options.min_tokens;
  const absl::StatusOr<TokenId> token = running.choice->sampler.Sample(
      logits, may_end ? std::span<const TokenId>() : request.end_tokens);
  if (!token.ok()) {
    Fail(&request, token.status());
    return false;
  }
  if (Contains(request.end_tokens, *token)) {
    Finish(running, FinishReason::kStop);
    return false;
  }
  ++counts_.completion_tokens;
  TokenEvent event;
  event.choice = running.choice->index;
  event.token.token = *token;
  if (request.wants_logprobs) {
    event.token = ComputeLogprob(logits, *token, request.options.top_logprobs);
  }
  event.sampled_at = absl::Now();
  request.stream.Push(std::move(event));
  sequence.tokens.push_back(*token);
  if (sequence.num_left() > 0) return true;
  Finish(running, FinishReason::kLength);
  return false;
}

void StepLoop::Finish(const Running& running, FinishReason reason) {
  Request& request = *running.request;
  scheduler_.Remove(&running.choice->sequence);
  running.choice->finish_reason = reason;
  if (--request.num_unfinished == 0) request.stream.Finish(absl::OkStatus());
  std::erase_if(running_,
                [choice = running.choice](const Running& r) { return r.choice == choice; });
}

void StepLoop::Fail(Request* request, absl::Status status) {
  request->failed = true;  // the next turn drops its choices
  request->stream.Finish(std::move(status));
}

StepLoop::Running StepLoop::Find(SequenceId id) const {
  const auto at = std::ranges::find(
      running_, id, [](const Running& running) { return running.choice->sequence.id; });
  CAIRN_CHECK(at != running_.end());
  return *at;
}

void StepLoop::CheckIdle() {
  // With nobody running, only the prefix cache may hold blocks.
  const int cached = prefixes_ == nullptr ? 0 : prefixes_->num_blocks();
  const bool sound = pool_.Consistent() && (!running_.empty() || pool_.num_used() == cached);
  CAIRN_DCHECK(sound);
  if (sound) return;
  ++counts_.kv_inconsistencies;
  log::Error("KV blocks are lost", {{"used", pool_.num_used()},
                                    {"free", pool_.num_free()},
                                    {"cached", cached},
                                    {"total", pool_.num_blocks()},
                                    {"running", running_.size()}});
}

void StepLoop::PublishStats() {
  counts_.running = static_cast<int>(running_.size());
  counts_.preempted = static_cast<int>(preempted_.size());
  const int idle = prefixes_ == nullptr ? 0 : prefixes_->num_idle();
  counts_.kv_tokens_used = int64_t{pool_.num_used() - idle} * kBlockTokens;
  counts_.kv_tokens_cached = int64_t{idle} * kBlockTokens;
  counts_.kv_tokens_total = int64_t{pool_.num_blocks()} * kBlockTokens;
  std::lock_guard<std::mutex> lock(mutex_);
  published_ = counts_;
}

void StepLoop::WaitForWork() {
  // Requests that are here although nothing is owed wait for their readers, and end at their
  // deadlines or when the reader has been away for too long.
  absl::Time until = absl::InfiniteFuture();
  for (const Running& running : running_) {
    until = std::min({until, running.request->context.deadline(),
                      running.request->paused_at + options_.reader_timeout});
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ready = [this] { return work_; };
  if (until == absl::InfiniteFuture()) {
    wake_.wait(lock, ready);
  } else {
    wake_.wait_until(lock, absl::ToChronoTime(until), ready);
  }
}

}  // namespace cairn::engine
