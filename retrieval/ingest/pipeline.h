// One job's way from bytes to a committed document version.
#ifndef CAIRN_RETRIEVAL_INGEST_PIPELINE_H_
#define CAIRN_RETRIEVAL_INGEST_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/context.h"
#include "common/status.h"
#include "retrieval/ingest/job_store.h"
#include "retrieval/ports.h"

namespace cairn::retrieval {

struct PipelineResult {
  JobOutcome outcome = JobOutcome::kNone;
  uint64_t version = 0;
};

// What the queue wants to hear on the way. Called on the thread that runs the pipeline.
struct PipelineEvents {
  std::function<void(JobStage stage, uint32_t chunks_done, uint32_t chunks_total)> on_progress;
  std::function<void(const std::string& media_type)> on_media_type;
  // Right before the commit; an error stops the job. Must be durable when it returns.
  std::function<absl::Status(uint64_t base_version)> before_commit;
};

// Runs `job` from where it is. Same bytes, metadata and size of chunks as what the sink has:
// nothing is parsed or embedded; a job that was at its commit when the process died learns here
// that the commit happened. Errors of the document itself are INVALID_ARGUMENT with a reason of
// parse.h.
absl::StatusOr<PipelineResult> RunPipeline(const RequestContext& context, const StoredJob& job,
                                           const JobStore& store, const IngestOptions& options,
                                           Embedder* embedder, DocumentSink* sink,
                                           const PipelineEvents& events);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INGEST_PIPELINE_H_
