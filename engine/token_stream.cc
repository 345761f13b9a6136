#include "engine/token_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/check.h"

namespace cairn::engine {

TokenStream::TokenStream(size_t capacity, int num_choices, std::function<void()> wake_writer)
    : capacity_(capacity), wake_writer_(std::move(wake_writer)), closed_(num_choices, false) {}

size_t TokenStream::room() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return capacity_ - events_.size();
}

bool TokenStream::closed(int choice) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_[choice];
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
  bool was_short = false;  // of room for a token of every choice
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto all_closed = [&] { return std::ranges::find(closed_, false) == closed_.end(); };
    const auto ready = [&] { return all_closed() || end_.has_value() || !events_.empty(); };
    if (context.deadline() == absl::InfiniteFuture()) {
      changed_.wait(lock, ready);
    } else {
      changed_.wait_until(lock, absl::ToChronoTime(context.deadline()), ready);
    }
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (events_.empty()) {
      if (all_closed()) return absl::CancelledError("the token stream was closed");
      if (!end_.has_value()) return absl::DeadlineExceededError("the deadline has passed");
      if (!end_->ok()) return *end_;
      return std::optional<TokenEvent>();
    }
    was_short = capacity_ - events_.size() < closed_.size();
    event = std::move(events_.front());
    events_.pop_front();
  }
  if (was_short) wake_writer_();
  return event;
}

void TokenStream::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_.assign(closed_.size(), true);
    changed_.notify_one();
  }
  wake_writer_();
}

void TokenStream::Close(int choice) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_[choice] = true;
  }
  wake_writer_();
}

}  // namespace cairn::engine
