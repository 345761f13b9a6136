#include "engine/token_stream.h"

#include <chrono>
#include <utility>

#include "common/check.h"

namespace cairn::engine {

TokenStream::TokenStream(size_t capacity, std::function<void()> wake_writer)
    : capacity_(capacity), wake_writer_(std::move(wake_writer)) {}

bool TokenStream::HasRoom() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return events_.size() < capacity_;
}

bool TokenStream::closed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

void TokenStream::Push(TokenEvent event) {
  std::lock_guard<std::mutex> lock(mutex_);
  CAIRN_DCHECK(events_.size() < capacity_ && !end_.has_value());
  events_.push_back(std::move(event));
  changed_.notify_one();
}

void TokenStream::Finish(absl::Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!end_.has_value()) end_ = std::move(status);
  changed_.notify_one();
}

absl::StatusOr<std::optional<TokenEvent>> TokenStream::Next(const RequestContext& context) {
  std::optional<TokenEvent> event;
  bool was_full = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto ready = [&] { return closed_ || end_.has_value() || !events_.empty(); };
    if (context.deadline() == absl::InfiniteFuture()) {
      changed_.wait(lock, ready);
    } else {
      changed_.wait_until(lock, absl::ToChronoTime(context.deadline()), ready);
    }
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (events_.empty()) {
      if (closed_) return absl::CancelledError("the token stream was closed");
      if (!end_.has_value()) return absl::DeadlineExceededError("the deadline has passed");
      if (!end_->ok()) return *end_;
      return std::optional<TokenEvent>();
    }
    was_full = events_.size() == capacity_;
    event = std::move(events_.front());
    events_.pop_front();
  }
  if (was_full) wake_writer_();
  return event;
}

void TokenStream::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }
  wake_writer_();
}

}  // namespace cairn::engine
