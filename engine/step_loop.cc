#include "engine/step_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

// Tokens that a slow reader may be behind before its request pauses.
constexpr size_t kStreamCapacity = 64;

// What a client that found the queue full is told to wait: about the time of a short answer.
constexpr absl::Duration kQueueFullRetry = absl::Seconds(2);

bool IsGone(const Request& request) {
  return request.stream.closed() || !request.context.Check().ok();
}

absl::Status ShuttingDown() { return absl::CancelledError("the engine is shutting down"); }

}  // namespace

Request::Request(RequestContext context, std::vector<TokenId> prompt,
                 const GenerateOptions& options, Sampler sampler, std::function<void()> wake_loop)
    : context(std::move(context)),
      top_logprobs(options.top_logprobs),
      wants_logprobs(options.logprobs || options.top_logprobs > 0),
      ignore_eos(options.ignore_eos),
      sampler(std::move(sampler)),
      stream(kStreamCapacity, std::move(wake_loop)) {
  sequence.salt = this->context.identity().tenant;
  sequence.num_prompt = static_cast<int>(prompt.size());
  sequence.max_tokens = options.max_tokens;
  sequence.tokens = std::move(prompt);
}

StepLoop::StepLoop(const SchedulerOptions& options, int max_queue, BlockPool* pool,
                   PrefixCache* prefixes, Runner* runner, std::span<const TokenId> end_tokens)
    : max_queue_(max_queue),
      pool_(*pool),
      prefixes_(prefixes),
      runner_(*runner),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      scheduler_(options, pool, prefixes),
      queue_(max_queue) {
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
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return ShuttingDown();
    if (!queue_.Push(std::move(request))) {
      return WithRetryAfter(WithReason(absl::ResourceExhaustedError(
                                           StrCat(max_queue_, " requests are waiting already")),
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
  for (const std::shared_ptr<Request>& request : std::exchange(running_, {})) {
    FinishRequest(*request, ShuttingDown());
  }
  for (const std::shared_ptr<Request>& request :
       queue_.RemoveIf([](const Request&) { return true; })) {
    request->stream.Finish(ShuttingDown());
  }
}

void StepLoop::DropClosed() {
  for (const std::shared_ptr<Request>& request : queue_.RemoveIf(IsGone)) {
    request->stream.Finish(absl::CancelledError("cancelled while waiting"));
  }
  std::erase_if(running_, [this](const std::shared_ptr<Request>& request) {
    if (!IsGone(*request)) return false;
    FinishRequest(*request, absl::CancelledError("cancelled while running"));
    return true;
  });
}

void StepLoop::AdmitWaiting() {
  while (const std::shared_ptr<Request> request = queue_.Front()) {
    request->sequence.id = next_id_;
    if (!scheduler_.Admit(&request->sequence)) break;
    ++next_id_;
    request->num_cached = request->sequence.num_cached;
    counts_.cached_prompt_tokens += request->num_cached;
    request->admitted_at = absl::Now();
    queue_.PopFront();
    running_.push_back(request);
  }
}

bool StepLoop::RunStep() {
  for (const std::shared_ptr<Request>& request : running_) {
    request->sequence.paused = !request->stream.HasRoom();
  }
  const StepPlan plan = scheduler_.Plan();
  if (plan.empty()) return false;
  const bool completed = runner_.Run(plan, [&] {
    return std::all_of(plan.chunks.begin(), plan.chunks.end(),
                       [this](const StepChunk& chunk) { return IsGone(*Find(chunk.sequence)); });
  });
  if (!completed) return true;  // the next turn drops them
  ++counts_.steps;
  for (const StepChunk& chunk : plan.chunks) {
    const Sequence& sequence = Find(chunk.sequence)->sequence;
    counts_.prompt_tokens += std::clamp<int64_t>(sequence.num_prompt - chunk.first_position, 0,
                                                 static_cast<int64_t>(chunk.tokens.size()));
  }
  scheduler_.Commit(plan);
  SampleAll(plan);
  return true;
}

void StepLoop::SampleAll(const StepPlan& plan) {
  int logit_row = 0;
  for (const StepChunk& chunk : plan.chunks) {
    if (!chunk.wants_logits) continue;
    const std::span<const float> logits = runner_.Logits(logit_row++);
    Request* request = Find(chunk.sequence);
    if (SampleNext(*request, logits)) continue;
    std::erase_if(running_, [request](const auto& r) { return r.get() == request; });
  }
}

bool StepLoop::SampleNext(Request& request, std::span<const float> logits) {
  const absl::StatusOr<TokenId> token = request.sampler.Sample(logits);
  if (!token.ok()) {
    FinishRequest(request, token.status());
    return false;
  }
  if (!request.ignore_eos && std::ranges::find(end_tokens_, *token) != end_tokens_.end()) {
    request.finish_reason = FinishReason::kStop;
    FinishRequest(request, absl::OkStatus());
    return false;
  }
  ++counts_.completion_tokens;
  TokenEvent event;
  event.token.token = *token;
  if (request.wants_logprobs) {
    event.token = ComputeLogprob(logits, *token, request.top_logprobs);
  }
  event.sampled_at = absl::Now();
  request.stream.Push(std::move(event));
  Sequence& sequence = request.sequence;
  sequence.tokens.push_back(*token);
  if (static_cast<int>(sequence.tokens.size()) < sequence.num_prompt + sequence.max_tokens) {
    return true;
  }
  request.finish_reason = FinishReason::kLength;
  FinishRequest(request, absl::OkStatus());
  return false;
}

void StepLoop::FinishRequest(Request& request, absl::Status status) {
  scheduler_.Remove(&request.sequence);
  request.stream.Finish(std::move(status));
}

Request* StepLoop::Find(SequenceId id) {
  for (const std::shared_ptr<Request>& request : running_) {
    if (request->sequence.id == id) return request.get();
  }
  CAIRN_CHECK(false);
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
  const int idle = prefixes_ == nullptr ? 0 : prefixes_->num_idle();
  counts_.kv_tokens_used = int64_t{pool_.num_used() - idle} * kBlockTokens;
  counts_.kv_tokens_cached = int64_t{idle} * kBlockTokens;
  counts_.kv_tokens_total = int64_t{pool_.num_blocks()} * kBlockTokens;
  std::lock_guard<std::mutex> lock(mutex_);
  published_ = counts_;
}

void StepLoop::WaitForWork() {
  // Requests that are here although nothing is owed wait for their readers, and end at their
  // deadlines.
  absl::Time until = absl::InfiniteFuture();
  for (const std::shared_ptr<Request>& request : running_) {
    until = std::min(until, request->context.deadline());
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
