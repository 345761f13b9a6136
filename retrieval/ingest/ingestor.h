// Ingestor is a durable queue of documents to ingest and the workers that take each one from bytes
// to committed chunks: parse, chunk, embed, commit.
//
// Durability: when Put returns, bytes and job are synced to disk. A job survives a crash at any
// point and goes on where
//   it was: vectors that were computed are kept, and a commit that happened is recognised, not
//   repeated. docs/formats/ingest-jobs.md describes the files.
// Order: jobs of one document run one after the other in the order they were put; different
// documents run
//   side by side, `workers` at a time.
// Failure: UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED and DEADLINE_EXCEEDED of the embedder or the
// sink are tried again
//   with growing delays, `max_attempts` times; anything else fails that job alone, with a reason. A
//   job that fails leaves the document's earlier version as it was.
// Threads: thread-safe.
#ifndef CAIRN_RETRIEVAL_INGEST_INGESTOR_H_
#define CAIRN_RETRIEVAL_INGEST_INGESTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "common/status.h"
#include "retrieval/chunk/chunker.h"
#include "retrieval/ingest/source_spool.h"
#include "retrieval/parse/parse.h"
#include "retrieval/ports.h"

namespace cairn::retrieval {

enum class JobState { kQueued, kRunning, kSucceeded, kFailed, kCancelled };
enum class JobStage { kWaiting, kParsing, kChunking, kEmbedding, kCommitting, kDone };
enum class JobOutcome { kNone, kCreated, kReplaced, kUnchanged };

struct Job {
  std::string id;  // sorts by time of creation
  std::string collection;
  std::string document_id;
  std::string media_type;  // as declared; resolved once parsed
  Metadata metadata;
  std::string sha256;  // of the source, lower-case hex
  uint64_t source_bytes = 0;
  int chunk_tokens = 0;  // tokens a chunk should hold; 0 = IngestOptions::target_tokens

  JobState state = JobState::kQueued;
  JobStage stage = JobStage::kWaiting;
  uint32_t chunks_done = 0;                // embedded
  uint32_t chunks_total = 0;               // 0 until chunked
  int attempts = 0;                        // runs that were begun
  JobOutcome outcome = JobOutcome::kNone;  // of a job that succeeded
  uint64_t version = 0;                    // of the document, of a job that succeeded
  absl::Status
      error;  // why it failed, with its reason; or why the last attempt of a queued job did
  absl::Time created_at;
  absl::Time updated_at;

  bool terminal() const {
    return state == JobState::kSucceeded || state == JobState::kFailed ||
           state == JobState::kCancelled;
  }
};

std::string_view JobStateName(JobState state);        // "queued", "running", "succeeded", ...
std::string_view JobStageName(JobStage stage);        // "waiting", "parsing", ...
std::string_view JobOutcomeName(JobOutcome outcome);  // "", "created", "replaced", "unchanged"

struct IngestOptions {
  // What it does.
  ParseLimits parse;
  int target_tokens = 256;                          // per chunk; the embedder's window limits it
  size_t max_chunks = 100'000;                      // per document
  uint64_t max_source_bytes = uint64_t{256} << 20;  // per document, on arrival
  size_t max_queued_jobs = 10'000;                  // more are refused with RESOURCE_EXHAUSTED
  size_t kept_finished_jobs = 1'000;                // the oldest beyond this are forgotten
  int max_attempts = 5;
  absl::Duration first_backoff = absl::Milliseconds(200);  // doubles each time
  absl::Duration max_backoff = absl::Seconds(30);
  // For one commit, which cancellation does not interrupt: half-known commits would be worse than a
  // wait.
  absl::Duration commit_timeout = absl::Minutes(5);
  // How fast, with what memory.
  int workers = 2;            // documents in work at once
  int embed_batch_size = 32;  // chunks per call of the embedder
  // Documents of at least this many bytes are worked on one at a time, so that memory is bounded by
  // it.
  uint64_t large_document_bytes = uint64_t{8} << 20;
};

inline constexpr int kMinChunkTokens = 32;

struct PutRequest {
  std::string collection;   // not empty
  std::string document_id;  // not empty, at most 1,024 bytes of UTF-8 without control characters
  std::string media_type;   // "" = by the extension of document_id, then by the bytes
  Metadata metadata;
  std::unique_ptr<SourceSpool> source;  // from NewSpool, finished
  int chunk_tokens = 0;                 // 0 = the default, else kMinChunkTokens or more
};

struct JobFilter {
  std::string collection;   // "" = all
  std::string document_id;  // "" = all
  bool active_only = false;
  size_t limit = 100;
};

class Ingestor {
 public:
  // `dir` is created when missing and belongs to this object alone (the caller holds the data
  // directory's lock). `embedder` and `sink` outlive it. Jobs found there go on at once.
  static absl::StatusOr<std::unique_ptr<Ingestor>> Open(const std::string& dir,
                                                        const IngestOptions& options,
                                                        Embedder* embedder, DocumentSink* sink);
  // Stops work within one step (a commit in progress is waited for) and ends the calls of WatchJob;
  // no other call may be in progress. Unfinished jobs stay on disk and go on at the next Open.
  virtual ~Ingestor() = default;

  virtual absl::StatusOr<std::unique_ptr<SourceSpool>> NewSpool() = 0;
  // The new job. INVALID_ARGUMENT names the field at fault.
  virtual absl::StatusOr<Job> Put(const RequestContext& context, PutRequest request) = 0;
  // NOT_FOUND (JOB_NOT_FOUND) when there is none, or it finished long ago.
  virtual absl::StatusOr<Job> GetJob(std::string_view job_id) = 0;
  // Newest first.
  virtual std::vector<Job> ListJobs(const JobFilter& filter) = 0;
  // Calls `on_change` on the calling thread with the job as it is, then after each change (changes
  // close together may be seen as one), the last time when it is terminal. Returns the terminal
  // job; CANCELLED when `on_change` returned false or the context was cancelled; UNAVAILABLE when
  // the ingestor shuts down.
  virtual absl::StatusOr<Job> WatchJob(const RequestContext& context, std::string_view job_id,
                                       const std::function<bool(const Job&)>& on_change) = 0;
  // Asks a job to stop; a running one stops within one step. Returns the job as it is after the
  // request: one that had finished, or was past its commit, is left as it is.
  virtual absl::StatusOr<Job> CancelJob(std::string_view job_id) = 0;
  // Cancels the document's unfinished jobs, waits for a running one to stop, then deletes the
  // document. The number of documents deleted, 0 or 1.
  virtual absl::StatusOr<int> Delete(const RequestContext& context, std::string_view collection,
                                     std::string_view document_id) = 0;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INGEST_INGESTOR_H_
