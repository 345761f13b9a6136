// Jobs on disk: dir/jobs/<id>/{job.json, source, vectors}. docs/formats/ingest-jobs.md has the
// format.
//
// Threads: thread-safe for different jobs; one caller at a time for each job.
#ifndef CAIRN_RETRIEVAL_INGEST_JOB_STORE_H_
#define CAIRN_RETRIEVAL_INGEST_JOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "retrieval/ingest/ingestor.h"

namespace cairn::retrieval {

// A job with what only the queue needs to know.
struct StoredJob {
  Job job;
  int failures = 0;            // attempts that ended in a transient error
  int interruptions = 0;       // times the process died at it without any progress
  uint64_t vectors_bytes = 0;  // size of the vector file when the last attempt began
  bool commit_begun = false;   // the sink was asked to commit, so it may have
  uint64_t base_version = 0;   // version of the document before that commit, 0 when there was none
};

std::string JobToJson(const StoredJob& job);
// INVALID_ARGUMENT when `json` is not a job of this format.
absl::StatusOr<StoredJob> JobFromJson(std::string_view json);

class JobStore {
 public:
  // Creates the folders when missing and removes what crashes left half made.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& dir);

  const std::string& spool_dir() const { return spool_dir_; }
  std::string SourcePath(std::string_view id) const { return PathOf(id, "source"); }
  std::string VectorsPath(std::string_view id) const { return PathOf(id, "vectors"); }

  // All jobs by id. One that cannot be read is logged, left on disk and skipped.
  absl::StatusOr<std::vector<StoredJob>> Load() const;
  // Makes a new job durable: moves the source in, writes job.json, syncs.
  absl::Status Add(const StoredJob& job, SourceSpool* source);
  absl::Status Save(const StoredJob& job);
  // Removes source and vectors; the job stays to be looked up.
  void DropData(std::string_view id);
  void Remove(std::string_view id);

 private:
  explicit JobStore(const std::string& dir);
  std::string PathOf(std::string_view id, std::string_view file) const;

  std::string jobs_dir_;
  std::string spool_dir_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INGEST_JOB_STORE_H_
