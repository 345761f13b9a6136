// TokenStream: the bounded queue between the step loop, which fills it, and the caller of Generate,
// which drains it on its own thread.
//
// A stream carries the choices of one request (n samples of one prompt). The reader may close it,
// or one choice of it, at any moment (cancel, deadline, stop string, a callback that has enough):
// the writer sees that before its next step. The writer ends it with Finish. A full stream pauses
// its request alone.
//
// Threads: thread-safe; one reader, one writer, and Close from anywhere.
#ifndef CAIRN_ENGINE_TOKEN_STREAM_H_
#define CAIRN_ENGINE_TOKEN_STREAM_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "common/status.h"
#include "engine/sampling/sampling_params.h"

namespace cairn::engine {

struct TokenEvent {
  int choice = 0;
  TokenLogprob token;  // only the id, unless the request asked for logprobs
  absl::Time sampled_at;
};

class TokenStream {
 public:
  // `wake_writer` is called, from any thread, when the writer may have something to do: the stream
  // was closed, or has room again. It must not call back into the stream.
  TokenStream(size_t capacity, int num_choices, std::function<void()> wake_writer);

  // The writer's side.
  size_t room() const;  // for events
  bool closed(int choice) const;
  void Push(TokenEvent event);  // REQUIRES: room() > 0
  void Finish(
      absl::Status status);  // the first call counts; OK = the model's own end or max_tokens

  // The reader's side. Waits for the next token; nullopt when the writer has finished with OK and
  // all was read; CANCELLED or DEADLINE_EXCEEDED of the context before anything else, CANCELLED
  // when all choices were closed; otherwise the status of Finish.
  absl::StatusOr<std::optional<TokenEvent>> Next(const RequestContext& context);

  void Close();  // all choices
  void Close(int choice);

 private:
  const size_t capacity_;
  const std::function<void()> wake_writer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TokenEvent> events_;
  std::optional<absl::Status> end_;
  std::vector<bool> closed_;  // [num_choices]
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_TOKEN_STREAM_H_
