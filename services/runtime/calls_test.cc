// A real server and a real client over loopback: flow control, admission, cancellation and the end
// of streams behave as they do in service, not as a fake would.
#include "services/runtime/calls.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "cairn/inference/v1/inference_service.grpc.pb.h"
#include "cairn/ingest/v1/ingest_service.grpc.pb.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "services/runtime/server.h"
#include "services/runtime/status_map.h"

namespace cairn::services {
namespace {

namespace inference = ::cairn::inference::v1;
namespace ingest = ::cairn::ingest::v1;

using GenerateWork =
    std::function<absl::Status(const RequestContext&, StreamWriter<inference::GenerateResponse>*)>;

class Streams final : public inference::InferenceService::CallbackService {
 public:
  explicit Streams(const CallRuntime* runtime) : runtime_(runtime) {}
  GenerateWork generate;
  UnaryWork list;

 private:
  grpc::ServerWriteReactor<inference::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const inference::GenerateRequest*) override {
    return ServeStream<inference::GenerateResponse>(*runtime_, "test/Generate", context, generate);
  }
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const inference::ListModelsRequest*,
                                       inference::ListModelsResponse*) override {
    return ServeUnary(*runtime_, "test/ListModels", context, list);
  }
  const CallRuntime* runtime_;
};

class CountBytes final : public Upload<ingest::PutDocumentRequest> {
 public:
  CountBytes(ingest::PutDocumentResponse* response, std::atomic<int>* ends)
      : response_(response), ends_(ends) {}
  absl::Status OnMessage(const RequestContext&, ingest::PutDocumentRequest* request) override {
    bytes_ += request->data().size();
    if (bytes_ > 1'000'000) return absl::ResourceExhaustedError("too large");
    return absl::OkStatus();
  }
  absl::Status OnEnd(const RequestContext&) override {
    ++*ends_;
    response_->mutable_job()->set_source_bytes(bytes_);
    return absl::OkStatus();
  }

 private:
  ingest::PutDocumentResponse* response_;
  std::atomic<int>* ends_;
  size_t bytes_ = 0;
};

class Uploads final : public ingest::IngestService::CallbackService {
 public:
  explicit Uploads(const CallRuntime* runtime) : runtime_(runtime) {}
  std::atomic<int> ends = 0;

 private:
  grpc::ServerReadReactor<ingest::PutDocumentRequest>* PutDocument(
      grpc::CallbackServerContext* context, ingest::PutDocumentResponse* response) override {
    return ServeUpload<ingest::PutDocumentRequest>(*runtime_, "test/PutDocument", context,
                                                   std::make_unique<CountBytes>(response, &ends));
  }
  const CallRuntime* runtime_;
};

class CallsTest : public ::testing::Test {
 protected:
  CallsTest() : executor_("test", {.num_threads = 2, .max_queued = 1}), health_(&drain_) {
    runtime_.executor = &executor_;
    runtime_.metrics = &metrics_;
    runtime_.drain = &drain_;
    runtime_.max_uploads = 1;
    auto server =
        GrpcServer::Start({.listen = "127.0.0.1:0", .max_message_bytes = 1 << 20},
                          {{"streams", &streams_}, {"uploads", &uploads_}}, &health_, &drain_);
    CAIRN_CHECK(server.ok());
    server_ = std::move(*server);
    channel_ = ConnectTo(server_->address(), 1 << 20);
    stub_ = inference::InferenceService::NewStub(channel_);
    ingest_stub_ = ingest::IngestService::NewStub(channel_);
  }

  CallRuntime runtime_;
  Metrics metrics_;
  DrainList drain_;
  Executor executor_;
  HealthService health_;
  Streams streams_{&runtime_};
  Uploads uploads_{&runtime_};
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::InferenceService::Stub> stub_;
  std::unique_ptr<ingest::IngestService::Stub> ingest_stub_;
};

inference::GenerateResponse Text(size_t bytes) {
  inference::GenerateResponse response;
  response.mutable_text_delta()->set_text(std::string(bytes, 'x'));
  return response;
}

TEST_F(CallsTest, SlowReaderPausesTheProducerAndCancelStopsIt) {
  std::atomic<int> written = 0;
  absl::Notification ended;
  streams_.generate = [&](const RequestContext&, StreamWriter<inference::GenerateResponse>* out) {
    while (out->Write(Text(100'000))) ++written;
    ended.Notify();
    return absl::CancelledError("reader gone");
  };
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, {});
  inference::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));

  // The count settles: what the buffer and the flow control windows hold, and no more.
  int before = -1;
  for (int i = 0; i < 100 && before != written; ++i) {
    before = written;
    absl::SleepFor(absl::Milliseconds(200));
  }
  EXPECT_EQ(before, written);
  EXPECT_LT(written, 200);  // of an endless stream; 20 MB would be far beyond any window
  EXPECT_FALSE(ended.HasBeenNotified());

  context.TryCancel();
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(5)));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(CallsTest, StalledReaderIsCutOff) {
  runtime_.stall_limit = absl::Milliseconds(200);
  absl::Notification ended;
  streams_.generate = [&](const RequestContext&, StreamWriter<inference::GenerateResponse>* out) {
    while (out->Write(Text(100'000))) {
    }
    ended.Notify();
    return absl::OkStatus();
  };
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, {});
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(10)));
  inference::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(CallsTest, EverythingWrittenArrivesInOrderBeforeTheStatus) {
  streams_.generate = [&](const RequestContext&, StreamWriter<inference::GenerateResponse>* out) {
    for (size_t i = 1; i <= 500; ++i) EXPECT_TRUE(out->Write(Text(i)));
    return InvalidField("x", "enough");
  };
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, {});
  inference::GenerateResponse response;
  size_t count = 0;
  while (reader->Read(&response)) EXPECT_EQ(response.text_delta().text().size(), ++count);
  EXPECT_EQ(count, 500u);
  EXPECT_EQ(FieldOf(FromGrpc(reader->Finish())), "x");
}

TEST_F(CallsTest, FullQueueIsRefusedWithRetryInfoAndLateCallsDoNotStart) {
  absl::Notification release;
  std::atomic<int> started = 0;
  streams_.list = [&](const RequestContext&) {
    ++started;
    release.WaitForNotification();
    return absl::OkStatus();
  };
  std::vector<std::thread> callers;
  std::atomic<int> late = 0;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      grpc::ClientContext context;
      inference::ListModelsResponse response;
      EXPECT_TRUE(stub_->ListModels(&context, {}, &response).ok());
    });
  }
  while (started < 2) absl::SleepFor(absl::Milliseconds(1));
  constexpr absl::Duration kTimeout = absl::Seconds(2);
  grpc::ClientContext queued;
  queued.set_deadline(absl::ToChronoTime(absl::Now() + kTimeout));
  callers.emplace_back([&] {
    inference::ListModelsResponse response;
    late = stub_->ListModels(&queued, {}, &response).error_code();
  });
  while (executor_.num_queued() < 1 && late == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(executor_.num_queued(), 1);
  // The server counts the time from the call's arrival, which is behind us, and gRPC rounds it up.
  const absl::Time server_deadline = absl::Now() + kTimeout + absl::Milliseconds(50);

  grpc::ClientContext context;
  inference::ListModelsResponse response;
  const absl::Status full = FromGrpc(stub_->ListModels(&context, {}, &response));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(full).has_value());

  callers[2].join();
  EXPECT_EQ(late, grpc::StatusCode::DEADLINE_EXCEEDED);
  absl::SleepFor(server_deadline - absl::Now());
  release.Notify();
  callers[0].join();
  callers[1].join();
  while (executor_.num_queued() + executor_.num_running() > 0)
    absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(started, 2);  // the late one was looked at and left
}

TEST_F(CallsTest, IdentityReachesTheHandler) {
  std::string request_id, trace_id;
  absl::Duration remaining;
  streams_.list = [&](const RequestContext& context) {
    request_id = context.identity().request_id;
    trace_id = context.identity().trace_id;
    remaining = context.remaining();
    return absl::OkStatus();
  };
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "r-17");
  context.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(100)));
  inference::ListModelsResponse response;
  ASSERT_TRUE(stub_->ListModels(&context, {}, &response).ok());
  EXPECT_EQ(request_id, "r-17");
  EXPECT_EQ(trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_GT(remaining, absl::Seconds(50));
  EXPECT_LE(remaining, absl::Seconds(101));
  EXPECT_EQ(context.GetServerInitialMetadata().find("x-request-id")->second, "r-17");
}

TEST_F(CallsTest, UploadIsCountedRefusedWhenTooLargeAndNeverEndedByACancel) {
  ingest::PutDocumentRequest part;
  part.set_data(std::string(400'000, 'x'));
  {
    grpc::ClientContext context;
    ingest::PutDocumentResponse response;
    auto writer = ingest_stub_->PutDocument(&context, &response);
    writer->Write(part);
    writer->Write(part);
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    EXPECT_EQ(response.job().source_bytes(), 800'000u);
  }
  {
    grpc::ClientContext context;
    ingest::PutDocumentResponse response;
    auto writer = ingest_stub_->PutDocument(&context, &response);
    for (int i = 0; i < 5 && writer->Write(part); ++i) {
    }
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    ingest::PutDocumentResponse response;
    auto writer = ingest_stub_->PutDocument(&context, &response);
    writer->Write(part);
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  while (*runtime_.open_uploads != 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(uploads_.ends, 1);
}

TEST_F(CallsTest, ShutdownEndsWatchersAtOnceAndCancelsTheRestAtItsLimit) {
  absl::Notification cancelled;
  streams_.generate = [&](const RequestContext& context,
                          StreamWriter<inference::GenerateResponse>* out) {
    out->Write(Text(1));
    while (context.Check().ok()) absl::SleepFor(absl::Milliseconds(5));
    cancelled.Notify();
    return context.Check();
  };
  grpc::ClientContext watch_context, context;
  auto health = grpc::health::v1::Health::NewStub(channel_);
  auto watch = health->Watch(&watch_context, {});
  grpc::health::v1::HealthCheckResponse status;
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.status(), grpc::health::v1::HealthCheckResponse::SERVICE_UNKNOWN);
  auto reader = stub_->Generate(&context, {});
  inference::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));

  const absl::Time start = absl::Now();
  server_->Shutdown(absl::Milliseconds(300));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_TRUE(cancelled.HasBeenNotified());
  EXPECT_FALSE(watch->Read(&status));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CallsTest, HealthWatchHearsEachChange) {
  using grpc::health::v1::HealthCheckResponse;
  health_.Set("a", false);
  grpc::ClientContext context;
  auto health = grpc::health::v1::Health::NewStub(channel_);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("a");
  auto watch = health->Watch(&context, request);
  HealthCheckResponse status;
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.status(), HealthCheckResponse::NOT_SERVING);
  health_.Set("a", true);
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.status(), HealthCheckResponse::SERVING);
  health_.Shutdown();
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.status(), HealthCheckResponse::NOT_SERVING);
  health_.Set("a", true);  // too late
  EXPECT_FALSE(health_.IsServing("a"));
  context.TryCancel();
}

}  // namespace
}  // namespace cairn::services
