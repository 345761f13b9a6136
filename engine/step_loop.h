// StepLoop: the engine's one thread that computes. It admits requests, runs steps, samples, and
// hands tokens over; it never touches text and never waits for a reader.
//
// Each turn: drop what is closed or past its deadline, admit, plan, run, sample. So a cancel is
// seen within one step whether the request waits, is in the middle of its prompt, decodes or was
// preempted; and a step in which nobody is interested any more ends between two layers.
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
#include "common/status.h"
#include "engine/engine.h"
#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/prefix_cache.h"
#include "engine/request.h"
#include "engine/runner/runner.h"
#include "engine/scheduler/request_queue.h"
#include "engine/scheduler/scheduler.h"
#include "engine/scheduler/step_cost.h"

namespace cairn::engine {

struct StepLoopOptions {
  SchedulerOptions scheduler;
  int max_queue = 64;
  absl::Duration max_stall = absl::Milliseconds(250);
  absl::Duration reader_timeout = absl::Minutes(1);
};

class StepLoop {
 public:
  // Everything pointed at outlives the loop. `prefixes` may be null.
  StepLoop(const StepLoopOptions& options, std::unique_ptr<QueuePolicy> policy, BlockPool* pool,
           PrefixCache* prefixes, Runner* runner);
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
  // A choice that computes, or that was preempted and waits to go on.
  struct Running {
    std::shared_ptr<Request> request;
    Choice* choice;
  };

  void Main();
  void DropClosed();
  void DropClosed(std::vector<Running>* list, bool admitted);
  void AdmitWaiting();
  bool AdmitPreempted();
  bool RunStep();  // false when there was nothing to compute
  void Prepare(const Running& running);
  // Handles the rows of one chunk that gave logits, `first_row` being the first.
  void TakeLogits(const StepChunk& chunk, int first_row);
  void TakePromptLogprobs(const StepChunk& chunk, int first_row, Request* request);
  void ForkChoices(const Running& running);
  // Samples from `logits` and hands the token over, or ends the choice. Returns whether it goes on.
  bool SampleNext(const Running& running, std::span<const float> logits);
  void Finish(const Running& running, FinishReason reason);
  void Fail(Request* request, absl::Status status);
  Running Find(SequenceId id) const;
  void CheckIdle();
  void PublishStats();
  void WaitForWork();

  const StepLoopOptions options_;
  BlockPool& pool_;
  PrefixCache* const prefixes_;
  Runner& runner_;

  // The loop's own.
  Scheduler scheduler_;
  StepCost cost_;
  std::vector<Running> running_;
  std::vector<Running> preempted_;  // the first to be thrown out is the first to come back
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
