#include "services/ingest/ingest_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "cairn/ingest/v1/ingest_service.grpc.pb.h"
#include "common/strings.h"
#include "services/retrieval/convert.h"
#include "services/runtime/calls.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::ingest::v1;
using IngestorPtr = std::shared_ptr<retrieval::Ingestor>;

constexpr size_t kMaxPieceBytes = 1 << 20;
constexpr size_t kMaxJobIdBytes = 128;

proto::JobState ToProto(retrieval::JobState state) {
  switch (state) {
    case retrieval::JobState::kQueued:
      return proto::JOB_STATE_QUEUED;
    case retrieval::JobState::kRunning:
      return proto::JOB_STATE_RUNNING;
    case retrieval::JobState::kSucceeded:
      return proto::JOB_STATE_SUCCEEDED;
    case retrieval::JobState::kFailed:
      return proto::JOB_STATE_FAILED;
    case retrieval::JobState::kCancelled:
      return proto::JOB_STATE_CANCELLED;
  }
  return proto::JOB_STATE_UNSPECIFIED;
}

proto::JobOutcome ToProto(retrieval::JobOutcome outcome) {
  switch (outcome) {
    case retrieval::JobOutcome::kNone:
      return proto::JOB_OUTCOME_UNSPECIFIED;
    case retrieval::JobOutcome::kCreated:
      return proto::JOB_OUTCOME_CREATED;
    case retrieval::JobOutcome::kReplaced:
      return proto::JOB_OUTCOME_REPLACED;
    case retrieval::JobOutcome::kUnchanged:
      return proto::JOB_OUTCOME_UNCHANGED;
  }
  return proto::JOB_OUTCOME_UNSPECIFIED;
}

const char* StageName(retrieval::JobStage stage) {
  switch (stage) {
    case retrieval::JobStage::kParsing:
      return "parse";
    case retrieval::JobStage::kChunking:
      return "chunk";
    case retrieval::JobStage::kEmbedding:
      return "embed";
    case retrieval::JobStage::kCommitting:
      return "commit";
    default:
      return "";
  }
}

void WriteJob(const retrieval::Job& job, proto::Job* out) {
  out->set_job_id(job.id);
  out->set_collection(job.collection);
  out->set_document_id(job.document_id);
  out->set_state(ToProto(job.state));
  out->set_outcome(ToProto(job.outcome));
  out->set_stage(StageName(job.stage));
  out->set_chunks_done(job.chunks_done);
  out->set_chunks_total(job.chunks_total);
  if (job.state == retrieval::JobState::kFailed) {
    out->set_error(std::string(job.error.message()));
    out->set_error_reason(ReasonOf(job.error));
    if (out->error_reason().empty())
      out->set_error_reason(absl::StatusCodeToString(job.error.code()));
  }
  out->set_attempts(job.attempts);
  out->set_source_bytes(job.source_bytes);
  WriteTime(job.created_at, out->mutable_created_at());
  if (job.terminal()) WriteTime(job.updated_at, out->mutable_finished_at());
}

absl::Status CheckJobId(const std::string& id) {
  if (id.empty() || id.size() > kMaxJobIdBytes) {
    return InvalidField("job_id",
                        StrCat("must be 1 to ", kMaxJobIdBytes, " bytes, got ", id.size()));
  }
  return absl::OkStatus();
}

// One PutDocument stream: the header opens a spool, the data fills it, the end makes the job.
class PutUpload final : public Upload<proto::PutDocumentRequest> {
 public:
  PutUpload(const IngestorGate* gate, proto::PutDocumentResponse* response)
      : gate_(gate), response_(response) {}

  absl::Status OnMessage(const RequestContext&, proto::PutDocumentRequest* request) override {
    switch (request->part_case()) {
      case proto::PutDocumentRequest::kHeader:
        if (put_.source != nullptr) return InvalidField("header", "is sent twice");
        return Begin(request->header());
      case proto::PutDocumentRequest::kData:
        if (put_.source == nullptr) return InvalidField("header", "must come first");
        if (request->data().size() > kMaxPieceBytes) {
          return InvalidField("data", StrCat("at most ", kMaxPieceBytes, " bytes a message, got ",
                                             request->data().size()));
        }
        return put_.source->Append(request->data());
      case proto::PutDocumentRequest::PART_NOT_SET:
        break;
    }
    return InvalidField("part", "is not set");
  }

  absl::Status OnEnd(const RequestContext& context) override {
    if (put_.source == nullptr) return InvalidField("header", "is missing");
    CAIRN_RETURN_IF_ERROR(put_.source->Finish());
    if (!sha256_.empty() && sha256_ != put_.source->sha256()) {
      return WithReason(
          InvalidField("header.sha256", StrCat("the bytes received have ", put_.source->sha256())),
          "CHECKSUM_MISMATCH");
    }
    CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate_->Get());
    CAIRN_ASSIGN_OR_RETURN(const retrieval::Job job, ingestor->Put(context, std::move(put_)));
    WriteJob(job, response_->mutable_job());
    return absl::OkStatus();
  }

 private:
  absl::Status Begin(const proto::PutDocumentHeader& header) {
    CAIRN_ASSIGN_OR_RETURN(put_.collection,
                           ReadCollection(header.collection(), "header.collection"));
    CAIRN_RETURN_IF_ERROR(CheckDocumentId(header.document_id(), "header.document_id"));
    put_.document_id = header.document_id();
    put_.media_type = header.media_type();
    CAIRN_ASSIGN_OR_RETURN(put_.metadata, ReadMetadata(header.metadata(), "header.metadata"));
    if (!header.sha256().empty() && !IsSha256Hex(header.sha256())) {
      return InvalidField("header.sha256", "must be 64 lower-case hex digits");
    }
    sha256_ = header.sha256();
    put_.chunk_tokens = header.chunk_tokens();
    if (put_.chunk_tokens != 0 && put_.chunk_tokens < retrieval::kMinChunkTokens) {
      return InvalidField("header.chunk_tokens", StrCat("must be ", retrieval::kMinChunkTokens,
                                                        " or more, got ", put_.chunk_tokens));
    }
    CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate_->Get());
    CAIRN_ASSIGN_OR_RETURN(put_.source, ingestor->NewSpool());
    return absl::OkStatus();
  }

  const IngestorGate* gate_;
  proto::PutDocumentResponse* response_;
  retrieval::PutRequest put_;
  std::string sha256_;
};

absl::Status WatchJob(const IngestorGate& gate, const RequestContext& context,
                      const proto::WatchJobRequest& request,
                      StreamWriter<proto::WatchJobResponse>* out) {
  CAIRN_RETURN_IF_ERROR(CheckJobId(request.job_id()));
  CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate.Get());
  return ingestor
      ->WatchJob(context, request.job_id(),
                 [out](const retrieval::Job& job) {
                   proto::WatchJobResponse event;
                   WriteJob(job,
                            job.terminal() ? event.mutable_finished() : event.mutable_progress());
                   return out->Write(std::move(event));
                 })
      .status();
}

absl::Status ListJobs(const IngestorGate& gate, const proto::ListJobsRequest& request,
                      proto::ListJobsResponse* response) {
  CAIRN_ASSIGN_OR_RETURN(const int page_size, ReadPageSize(request.page_size()));
  // A token is the number of jobs already seen. The list is short (finished jobs are forgotten).
  uint32_t skip = 0;
  if (!request.page_token().empty() &&
      (!absl::SimpleAtoi(request.page_token(), &skip) || skip > 10'000'000)) {
    return InvalidField("page_token", "is not one of ours");
  }
  CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate.Get());
  const auto jobs = ingestor->ListJobs({.limit = size_t{skip} + page_size + 1});
  const size_t end = std::min(jobs.size(), size_t{skip} + page_size);
  for (size_t i = skip; i < end; ++i) WriteJob(jobs[i], response->add_jobs());
  if (jobs.size() > end) response->set_next_page_token(StrCat(end));
  return absl::OkStatus();
}

absl::Status CancelJob(const IngestorGate& gate, const proto::CancelJobRequest& request,
                       proto::CancelJobResponse* response) {
  CAIRN_RETURN_IF_ERROR(CheckJobId(request.job_id()));
  CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate.Get());
  CAIRN_ASSIGN_OR_RETURN(const auto before, ingestor->GetJob(request.job_id()));
  if (before.terminal()) {
    return WithReason(absl::FailedPreconditionError(
                          StrCat("the job has ended: ", retrieval::JobStateName(before.state))),
                      "JOB_ENDED");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto job, ingestor->CancelJob(request.job_id()));
  WriteJob(job, response->mutable_job());
  return absl::OkStatus();
}

absl::Status DeleteDocument(const IngestorGate& gate, const RequestContext& context,
                            const proto::DeleteDocumentRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const std::string collection, ReadCollection(request.collection()));
  CAIRN_RETURN_IF_ERROR(CheckDocumentId(request.document_id()));
  CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate.Get());
  CAIRN_ASSIGN_OR_RETURN(const int deleted,
                         ingestor->Delete(context, collection, request.document_id()));
  if (deleted > 0) return absl::OkStatus();
  return WithReason(absl::NotFoundError(StrCat("no document \"", request.document_id(), "\"")),
                    "DOCUMENT_NOT_FOUND");
}

#define METHOD(name) "cairn.ingest.v1.IngestService/" name

class Service final : public proto::IngestService::CallbackService {
 public:
  Service(const CallRuntime& runtime, Executor* watchers, const IngestorGate* gate)
      : runtime_(runtime), watchers_(watchers), gate_(*gate) {}

 private:
  grpc::ServerReadReactor<proto::PutDocumentRequest>* PutDocument(
      grpc::CallbackServerContext* context, proto::PutDocumentResponse* response) override {
    return ServeUpload<proto::PutDocumentRequest>(runtime_, METHOD("PutDocument"), context,
                                                  std::make_unique<PutUpload>(&gate_, response));
  }
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const proto::GetJobRequest* request,
                                   proto::GetJobResponse* response) override {
    return ServeUnary(runtime_, METHOD("GetJob"), context,
                      [=, this](const RequestContext&) -> absl::Status {
                        CAIRN_RETURN_IF_ERROR(CheckJobId(request->job_id()));
                        CAIRN_ASSIGN_OR_RETURN(const IngestorPtr ingestor, gate_.Get());
                        CAIRN_ASSIGN_OR_RETURN(const auto job, ingestor->GetJob(request->job_id()));
                        WriteJob(job, response->mutable_job());
                        return absl::OkStatus();
                      });
  }
  grpc::ServerWriteReactor<proto::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context, const proto::WatchJobRequest* request) override {
    return ServeStream<proto::WatchJobResponse>(
        runtime_, METHOD("WatchJob"), context,
        [this, request](const RequestContext& c, StreamWriter<proto::WatchJobResponse>* out) {
          return services::WatchJob(gate_, c, *request, out);
        },
        {.executor = watchers_, .end_on_drain = true});
  }
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const proto::ListJobsRequest* request,
                                     proto::ListJobsResponse* response) override {
    return ServeUnary(runtime_, METHOD("ListJobs"), context, [=, this](const RequestContext&) {
      return services::ListJobs(gate_, *request, response);
    });
  }
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const proto::CancelJobRequest* request,
                                      proto::CancelJobResponse* response) override {
    return ServeUnary(runtime_, METHOD("CancelJob"), context, [=, this](const RequestContext&) {
      return services::CancelJob(gate_, *request, response);
    });
  }
  grpc::ServerUnaryReactor* DeleteDocument(grpc::CallbackServerContext* context,
                                           const proto::DeleteDocumentRequest* request,
                                           proto::DeleteDocumentResponse*) override {
    return ServeUnary(runtime_, METHOD("DeleteDocument"), context,
                      [=, this](const RequestContext& c) {
                        return services::DeleteDocument(gate_, c, *request);
                      });
  }

  const CallRuntime& runtime_;
  Executor* watchers_;
  const IngestorGate& gate_;
};

}  // namespace

void IngestorGate::Set(IngestorPtr ingestor) {
  absl::MutexLock lock(&mutex_);
  ingestor_ = std::move(ingestor);
}

absl::StatusOr<IngestorPtr> IngestorGate::Get() const {
  absl::MutexLock lock(&mutex_);
  if (ingestor_ != nullptr) return ingestor_;
  return WithRetryAfter(absl::UnavailableError("ingestion is starting or stopping"),
                        absl::Seconds(1));
}

void IngestorGate::Close() {
  std::weak_ptr<retrieval::Ingestor> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended = std::exchange(ingestor_, nullptr);
  }
  while (!ended.expired()) absl::SleepFor(absl::Milliseconds(5));
}

std::unique_ptr<grpc::Service> MakeIngestService(const CallRuntime& runtime, Executor* watchers,
                                                 IngestorGate* ingestor) {
  return std::make_unique<Service>(runtime, watchers, ingestor);
}

}  // namespace cairn::services
