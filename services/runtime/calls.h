// How a handler written as a plain blocking function is run for a gRPC call: on the role's
// executor, with admission, cancellation, metrics and status mapping around it.
//
//   ServeUnary   one request, one response
//   ServeStream  one request, many responses through a StreamWriter
//   ServeUpload  many requests, one response
//
// The gRPC request and response objects live until the call is done, so handlers may refer to them.
#ifndef CAIRN_SERVICES_RUNTIME_CALLS_H_
#define CAIRN_SERVICES_RUNTIME_CALLS_H_

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/status.h"
#include "grpcpp/support/server_callback.h"
#include "services/runtime/call_scope.h"

namespace cairn::services {

using UnaryWork = std::function<absl::Status(const RequestContext&)>;
grpc::ServerUnaryReactor* ServeUnary(const CallRuntime& runtime, const char* method,
                                     grpc::CallbackServerContext* context, UnaryWork work);

// The producer's end of a response stream.
//
// One write is in flight; behind it waits a bounded buffer. Write blocks while the buffer is full,
// so a slow reader pauses the producer, and returns false when the call is over (cancelled, reader
// gone or stalled): stop then.
template <typename Response>
class StreamWriter {
 public:
  virtual ~StreamWriter() = default;
  virtual bool Write(Response response) = 0;
};

// Messages that wait behind the one in flight.
inline constexpr size_t kStreamBuffer = 16;

namespace internal {

template <typename Response>
class StreamCall final : public grpc::ServerWriteReactor<Response>, public StreamWriter<Response> {
 public:
  using Work = std::function<absl::Status(const RequestContext&, StreamWriter<Response>*)>;

  StreamCall(const CallRuntime& runtime, const char* method, grpc::CallbackServerContext* context,
             bool end_on_drain)
      : scope_(runtime, method, context), grpc_context_(context) {
    if (end_on_drain) scope_.EndOnDrain();
  }

  void Start(Executor* executor, Work work) {
    absl::Status admitted = executor->Submit([this, work = std::move(work)] {
      absl::Status status = scope_.context().Check();
      if (status.ok()) status = work(scope_.context(), this);
      End(std::move(status));
    });
    if (!admitted.ok()) End(std::move(admitted));
  }

  bool Write(Response response) override {
    bool start = false, over;
    {
      absl::MutexLock lock(&mutex_);
      const auto writable = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return over_ || buffer_.size() <= kStreamBuffer;
      };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&writable), scope_.runtime().stall_limit)) {
        over_ = stalled_ = true;
      }
      if (!over_) {
        start = buffer_.empty();
        buffer_.push_back(std::move(response));
      }
      over = over_;
    }
    if (start) StartFront();
    if (!over) return true;
    scope_.Cancel();
    grpc_context_->TryCancel();  // fails the write that a stalled reader holds
    return false;
  }

 private:
  // The front stays in the buffer while it is written; push_back does not move it.
  void StartFront() {
    const Response* front;
    {
      absl::MutexLock lock(&mutex_);
      front = &buffer_.front();
    }
    this->StartWrite(front);
  }

  void OnWriteDone(bool ok) override {
    bool more, finish;
    {
      absl::MutexLock lock(&mutex_);
      buffer_.pop_front();
      if (!ok) over_ = true;
      if (over_) buffer_.clear();
      more = !buffer_.empty();
      finish = !more && ended_;
    }
    if (more) StartFront();
    if (finish) this->Finish(status_);
  }

  void End(absl::Status status) {
    bool finish;
    {
      absl::MutexLock lock(&mutex_);
      if (stalled_) {
        status =
            WithReason(absl::AbortedError("the reader of the stream took nothing for too long"),
                       "READER_STALLED");
      }
      status_ = scope_.Close(std::move(status));
      ended_ = true;
      finish = buffer_.empty();
    }
    if (finish) this->Finish(status_);
  }

  void OnCancel() override {
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
    }
    scope_.Cancel();
  }
  void OnDone() override { delete this; }

  CallScope scope_;
  grpc::CallbackServerContext* grpc_context_;
  absl::Mutex mutex_;
  std::deque<Response> buffer_ ABSL_GUARDED_BY(mutex_);  // the front is in flight
  bool over_ ABSL_GUARDED_BY(mutex_) = false;            // nothing more is to be written
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the handler returned; status_ is set
  grpc::Status status_;
};

}  // namespace internal

struct StreamOptions {
  Executor* executor = nullptr;  // another one than the role's
  bool end_on_drain = false;     // the call only watches: end it when the server drains
};

template <typename Response>
grpc::ServerWriteReactor<Response>* ServeStream(
    const CallRuntime& runtime, const char* method, grpc::CallbackServerContext* context,
    std::function<absl::Status(const RequestContext&, StreamWriter<Response>*)> work,
    StreamOptions options = {}) {
  auto* call = new internal::StreamCall<Response>(runtime, method, context, options.end_on_drain);
  call->Start(options.executor != nullptr ? options.executor : runtime.executor, std::move(work));
  return call;
}

// The handler of one client stream. Called on the executor, one call at a time; destroyed when the
// call is over, complete or not.
template <typename Request>
class Upload {
 public:
  virtual ~Upload() = default;
  virtual absl::Status OnMessage(const RequestContext& context, Request* request) = 0;
  // The client has sent everything; fills the response.
  virtual absl::Status OnEnd(const RequestContext& context) = 0;
};

namespace internal {

template <typename Request>
class UploadCall final : public grpc::ServerReadReactor<Request> {
 public:
  UploadCall(const CallRuntime& runtime, const char* method, grpc::CallbackServerContext* context,
             std::unique_ptr<Upload<Request>> upload)
      : scope_(runtime, method, context), grpc_context_(context), upload_(std::move(upload)) {}

  void Start() {
    if (scope_.runtime().open_uploads->fetch_add(1) >= scope_.runtime().max_uploads) {
      return this->Finish(scope_.Close(WithRetryAfter(
          WithReason(absl::ResourceExhaustedError(absl::StrCat(
                         "uploads open together are limited to ", scope_.runtime().max_uploads)),
                     "TOO_MANY_UPLOADS"),
          absl::Seconds(1))));
    }
    this->StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    // The files and hashing behind a message are work for the executor, not for gRPC's threads.
    scope_.runtime().executor->Continue([this, ok] { ok ? Message() : Ended(); });
  }

  void Message() {
    absl::Status status = scope_.context().Check();
    if (status.ok()) status = upload_->OnMessage(scope_.context(), &request_);
    if (!status.ok()) return Close(std::move(status));
    this->StartRead(&request_);
  }

  // A client that went away ends its stream too. The transport reports both ends in one step and we
  // are a thread switch later, so the cancellation is visible by now.
  void Ended() {
    absl::Status status = scope_.context().Check();
    if (status.ok() && grpc_context_->IsCancelled())
      status = absl::CancelledError("request cancelled");
    if (status.ok()) status = upload_->OnEnd(scope_.context());
    Close(std::move(status));
  }

  void Close(absl::Status status) {
    upload_.reset();
    this->Finish(scope_.Close(std::move(status)));
  }

  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override {
    scope_.runtime().open_uploads->fetch_sub(1);
    delete this;
  }

  CallScope scope_;
  grpc::CallbackServerContext* grpc_context_;
  std::unique_ptr<Upload<Request>> upload_;
  Request request_;
};

}  // namespace internal

template <typename Request>
grpc::ServerReadReactor<Request>* ServeUpload(const CallRuntime& runtime, const char* method,
                                              grpc::CallbackServerContext* context,
                                              std::unique_ptr<Upload<Request>> upload) {
  auto* call = new internal::UploadCall<Request>(runtime, method, context, std::move(upload));
  call->Start();
  return call;
}

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_CALLS_H_
