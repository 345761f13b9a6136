// StepLoop: the engine's one thread that computes. It admits requests, runs steps, samples, and
// hands tokens over; it never touches text and never waits for a reader.
//
// Each turn: drop what is closed or past its deadline, admit, plan, run, sample. So a cancel is
// seen within one step whether the request waits, is in the middle of its prompt, or decodes; and a
// step in which nobody is interested any more ends between two layers.
//
// Threads: all public methods are thread-safe.
#ifndef CAIRN_ENGINE_STEP_LOOP_H_
#define CAIRN_ENGINE_STEP_LOOP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "common/status.h"
#include "engine/engine.h"
#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/prefix_cache.h"
#include "engine/runner/runner.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler/request_queue.h"
#include "engine/scheduler/scheduler.h"
#include "engine/token_stream.h"

namespace cairn::engine {

// One call of Generate. The stream is shared with the caller; all the rest is the loop's once
// submitted, except `finish_reason`, `admitted_at` and `num_cached`, which the caller may read
// after the stream has ended or given a token.
struct Request {
  Request(RequestContext context, std::vector<TokenId> prompt, const GenerateOptions& options,
          Sampler sampler, std::function<void()> wake_loop);

  const RequestContext context;
  const int top_logprobs;
  const bool wants_logprobs;
  const bool ignore_eos;
  Sequence sequence;
  Sampler sampler;
  TokenStream stream;
  FinishReason finish_reason = FinishReason::kLength;
  absl::Time admitted_at = absl::InfiniteFuture();
  int num_cached = 0;  // tokens of the prompt
};

class StepLoop {
 public:
  // Everything pointed at outlives the loop. `prefixes` may be null. `end_tokens` end a request
  // unless it ignores them.
  StepLoop(const SchedulerOptions& options, int max_queue, BlockPool* pool, PrefixCache* prefixes,
           Runner* runner, std::span<const TokenId> end_tokens);
  ~StepLoop() { Stop(); }

  // Ends every request with CANCELLED, and the thread. Later calls of Submit fail; a second Stop
  // does nothing.
  void Stop();

  // RESOURCE_EXHAUSTED, reason QUEUE_FULL, with the time after which a place is likely; CANCELLED
  // after Stop.
  absl::Status Submit(std::shared_ptr<Request> request);
  // Makes the loop look at its requests again.
  void Wake();

  EngineStats stats() const;

 private:
  void Main();
  void DropClosed();
  void AdmitWaiting();
  bool RunStep();  // false when there was nothing to compute
  void SampleAll(const StepPlan& plan);
  // Samples from `logits` and hands the token over, or ends the request. Returns whether it goes
  // on.
  bool SampleNext(Request& request, std::span<const float> logits);
  void FinishRequest(Request& request, absl::Status status);
  Request* Find(SequenceId id);
  void CheckIdle();
  void PublishStats();
  void WaitForWork();

  const int64_t max_queue_;
  BlockPool& pool_;
  PrefixCache* const prefixes_;
  Runner& runner_;
  const std::vector<TokenId> end_tokens_;

  // The loop's own.
  Scheduler scheduler_;
  std::vector<std::shared_ptr<Request>> running_;
  SequenceId next_id_ = 1;
  EngineStats counts_;

  RequestQueue<Request> queue_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool work_ = false;      // guarded by mutex_: something changed since the loop last looked
  bool stopping_ = false;  // guarded by mutex_
  EngineStats published_;  // guarded by mutex_
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_STEP_LOOP_H_
