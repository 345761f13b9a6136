// RequestContext: who asks, until when, and whether they still want it. The first argument of every
// domain call that can wait or do work. Cheap to copy (shared state behind it).
//
// Threads: thread-safe. Cancellation may come from any thread; callbacks registered with OnCancel
// run once, on the cancelling thread, or at once when the context is already cancelled; they must
// be short.
#ifndef CAIRN_COMMON_CONTEXT_H_
#define CAIRN_COMMON_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace cairn {

class CancelState;

// The owner's end of a cancellation: the side that may cancel.
class CancelSource {
 public:
  CancelSource();
  void Cancel() const;
  bool cancelled() const;

 private:
  friend class RequestContext;
  std::shared_ptr<CancelState> state_;
};

// Unregisters its callback when destroyed. After the destructor returns the callback is not running
// and will not run.
class CancelRegistration {
 public:
  CancelRegistration() = default;
  CancelRegistration(CancelRegistration&& other) noexcept;
  CancelRegistration& operator=(CancelRegistration&& other) noexcept;
  ~CancelRegistration();

 private:
  friend class RequestContext;
  std::shared_ptr<CancelState> state_;
  uint64_t id_ = 0;
};

struct RequestIdentity {
  std::string request_id;  // unique per request, for logs
  std::string trace_id;    // 32 hex digits (W3C trace context), or empty
  std::string principal;   // who asks; empty = anonymous
  std::string tenant;      // empty = the default tenant
};

class RequestContext {
 public:
  // No deadline, never cancelled.
  static RequestContext Background();

  explicit RequestContext(const CancelSource& source, absl::Time deadline = absl::InfiniteFuture(),
                          RequestIdentity identity = {});

  // A copy whose deadline is the earlier of the two.
  RequestContext WithDeadline(absl::Time deadline) const;
  RequestContext WithTimeout(absl::Duration timeout) const;

  absl::Time deadline() const { return deadline_; }
  absl::Duration remaining() const;
  bool cancelled() const;
  // OK, or CANCELLED, or DEADLINE_EXCEEDED. Call it before and between units of work.
  absl::Status Check() const;
  [[nodiscard]] CancelRegistration OnCancel(std::function<void()> callback) const;

  const RequestIdentity& identity() const { return *identity_; }

 private:
  std::shared_ptr<CancelState> state_;
  absl::Time deadline_;
  std::shared_ptr<const RequestIdentity> identity_;
};

}  // namespace cairn

#endif  // CAIRN_COMMON_CONTEXT_H_
