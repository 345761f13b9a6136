#include "retrieval/ingest/ingestor.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "common/log.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/ingest/job_store.h"
#include "retrieval/ingest/pipeline.h"

namespace cairn::retrieval {
namespace {

constexpr size_t kMaxCollectionBytes = 128;
constexpr size_t kMaxDocumentIdBytes = 1024;
constexpr size_t kMaxMetadataBytes = 64 << 10;
// A document that the process dies at this often, without a vector of progress, is not tried again.
constexpr int kMaxInterruptions = 10;

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

absl::Status CheckName(std::string_view field, std::string_view value, size_t max_bytes) {
  if (value.empty()) return InvalidField(field, "must not be empty");
  if (value.size() > max_bytes) {
    return InvalidField(field, StrCat("has ", value.size(), " bytes, more than ", max_bytes));
  }
  if (!IsValidUtf8(value)) return InvalidField(field, "is not valid UTF-8");
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return InvalidField(field, "has a control character");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMetadata(const Metadata& metadata) {
  size_t bytes = 0;
  for (const auto& [key, value] : metadata) {
    CAIRN_RETURN_IF_ERROR(CheckName("metadata", key, kMaxDocumentIdBytes));
    bytes += key.size();
    if (const auto* text = std::get_if<std::string>(&value)) {
      if (!IsValidUtf8(*text)) {
        return InvalidField("metadata", StrCat("value of '", key, "' is not valid UTF-8"));
      }
      bytes += text->size();
    } else if (const auto* number = std::get_if<double>(&value);
               number && !std::isfinite(*number)) {
      return InvalidField("metadata", StrCat("value of '", key, "' is not a finite number"));
    }
  }
  if (bytes > kMaxMetadataBytes) {
    return InvalidField("metadata", StrCat("has ", bytes, " bytes, more than ", kMaxMetadataBytes));
  }
  return absl::OkStatus();
}

uint64_t FileSize(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_size) : 0;
}

using Key = std::pair<std::string, std::string>;  // collection, document

struct Entry {
  StoredJob stored;
  uint64_t revision = 0;  // one more at each change
  CancelSource cancel;    // of the run in progress
  bool cancel_requested = false;
  absl::Time not_before = absl::InfinitePast();

  Key key() const { return {stored.job.collection, stored.job.document_id}; }
};

class IngestorImpl final : public Ingestor {
 public:
  IngestorImpl(const IngestOptions& options, std::unique_ptr<JobStore> store, Embedder* embedder,
               DocumentSink* sink)
      : options_(options), store_(std::move(store)), embedder_(embedder), sink_(sink) {}

  ~IngestorImpl() override {
    std::vector<CancelSource> running;
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& [id, entry] : entries_) {
        if (entry->stored.job.state == JobState::kRunning) running.push_back(entry->cancel);
      }
      changed_.notify_all();
    }
    for (const CancelSource& source : running) source.Cancel();
    for (std::thread& worker : workers_) worker.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return watchers_ == 0; });
  }

  absl::Status Start() {
    CAIRN_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, store_->Load());
    std::vector<std::pair<absl::Time, std::string>> finished;
    {
      std::lock_guard lock(mutex_);
      for (StoredJob& stored : jobs) {
        if (!stored.job.terminal()) Recover(&stored);
        const std::string id = stored.job.id;
        last_id_time_ = std::max<uint64_t>(last_id_time_, std::strtoull(id.c_str(), nullptr, 16));
        if (stored.job.terminal()) finished.emplace_back(stored.job.updated_at, id);
        Insert(std::move(stored));
      }
      std::sort(finished.begin(), finished.end());
      for (auto& [time, id] : finished) finished_.push_back(std::move(id));
      ForgetOldJobs();
    }
    for (int i = 0; i < std::max(1, options_.workers); ++i) {
      workers_.emplace_back([this] { Work(); });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<SourceSpool>> NewSpool() override {
    return SourceSpool::Create(store_->spool_dir(), options_.max_source_bytes);
  }

  absl::StatusOr<Job> Put(const RequestContext& context, PutRequest request) override;

  absl::StatusOr<Job> GetJob(std::string_view job_id) override {
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Lookup(job_id));
    return entry->stored.job;
  }

  std::vector<Job> ListJobs(const JobFilter& filter) override {
    std::lock_guard lock(mutex_);
    std::vector<Job> out;
    for (auto it = entries_.rbegin(); it != entries_.rend() && out.size() < filter.limit; ++it) {
      const Job& job = it->second->stored.job;
      if (!filter.collection.empty() && job.collection != filter.collection) continue;
      if (!filter.document_id.empty() && job.document_id != filter.document_id) continue;
      if (filter.active_only && job.terminal()) continue;
      out.push_back(job);
    }
    return out;
  }

  absl::StatusOr<Job> WatchJob(const RequestContext& context, std::string_view job_id,
                               const std::function<bool(const Job&)>& on_change) override;
  absl::StatusOr<Job> CancelJob(std::string_view job_id) override;
  absl::StatusOr<int> Delete(const RequestContext& context, std::string_view collection,
                             std::string_view document_id) override;

 private:
  // Lookup, Insert, Pick, Retire, ForgetOldJobs, Changed and WaitForChange REQUIRE: mutex_ is held.
  absl::StatusOr<std::shared_ptr<Entry>> Lookup(std::string_view id) {
    const auto it = entries_.find(std::string(id));
    if (it != entries_.end()) return it->second;
    return WithReason(absl::NotFoundError(StrCat("no ingest job '", id, "'")), "JOB_NOT_FOUND");
  }

  void Recover(StoredJob* stored);
  void Insert(StoredJob stored);
  // The job that a worker shall run now, marked running; null when there is none. `*wake` is when
  // to look again.
  std::shared_ptr<Entry> Pick(absl::Time* wake);
  void Work();
  void RunOne(const std::shared_ptr<Entry>& entry);
  void FinishRun(const std::shared_ptr<Entry>& entry, StoredJob done, absl::Duration delay);
  StoredJob Conclude(const std::shared_ptr<Entry>& entry,
                     const absl::StatusOr<PipelineResult>& result, absl::Duration* delay);
  // Takes a finished job out of its document's line.
  void Retire(const Entry& entry);
  void ForgetOldJobs();
  void Changed(Entry* entry) {
    ++entry->revision;
    changed_.notify_all();
  }
  void WaitForChange(std::unique_lock<std::mutex>* lock, absl::Time until) {
    if (until == absl::InfiniteFuture()) {
      changed_.wait(*lock);
    } else {
      changed_.wait_until(*lock, absl::ToChronoTime(until));
    }
  }
  void Save(const StoredJob& stored) {
    if (const absl::Status status = store_->Save(stored); !status.ok()) {
      log::Error("ingest job cannot be saved",
                 {{"job", stored.job.id}, {"error", status.ToString()}});
    }
  }
  bool IsLarge(const Job& job) const { return job.source_bytes >= options_.large_document_bytes; }

  const IngestOptions options_;
  const std::unique_ptr<JobStore> store_;
  Embedder* const embedder_;
  DocumentSink* const sink_;

  std::mutex mutex_;                 // guards what follows, but workers_
  std::condition_variable changed_;  // any change of any job, and stopping
  bool stopping_ = false;
  uint64_t last_id_time_ = 0;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  // Unfinished jobs of each document in their order; the first may run.
  std::map<Key, std::deque<std::shared_ptr<Entry>>> lines_;
  std::set<std::string> ready_;  // queued jobs that are first in line
  size_t active_ = 0;            // jobs in all lines
  std::multiset<Key> deleting_;
  bool large_running_ = false;
  std::deque<std::string> finished_;  // oldest first
  int watchers_ = 0;                  // calls of WatchJob in progress
  std::vector<std::thread> workers_;
};

// A job that was running when the process died goes on, unless it seems to be what kills the
// process.
void IngestorImpl::Recover(StoredJob* stored) {
  Job& job = stored->job;
  if (job.state == JobState::kRunning) {
    const bool progress = FileSize(store_->VectorsPath(job.id)) > stored->vectors_bytes;
    stored->interruptions = progress ? 1 : stored->interruptions + 1;
  }
  job.state = JobState::kQueued;
  job.stage = JobStage::kWaiting;
  if (stored->interruptions <= kMaxInterruptions) return;
  job.state = JobState::kFailed;
  job.stage = JobStage::kDone;
  job.updated_at = absl::Now();
  job.error = WithReason(absl::InternalError(StrCat("the server stopped ", stored->interruptions,
                                                    " times while it worked on this document")),
                         "INTERRUPTED");
  Save(*stored);
  store_->DropData(job.id);
}

void IngestorImpl::Insert(StoredJob stored) {
  auto entry = std::make_shared<Entry>();
  entry->stored = std::move(stored);
  entries_[entry->stored.job.id] = entry;
  if (entry->stored.job.terminal()) return;
  std::deque<std::shared_ptr<Entry>>& line = lines_[entry->key()];
  line.push_back(entry);
  if (line.size() == 1) ready_.insert(entry->stored.job.id);
  ++active_;
  Changed(entry.get());
}

absl::StatusOr<Job> IngestorImpl::Put(const RequestContext& context, PutRequest request) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  CAIRN_RETURN_IF_ERROR(CheckName("collection", request.collection, kMaxCollectionBytes));
  CAIRN_RETURN_IF_ERROR(CheckName("document_id", request.document_id, kMaxDocumentIdBytes));
  CAIRN_RETURN_IF_ERROR(CheckMetadata(request.metadata));
  if (!request.media_type.empty()) {
    CAIRN_RETURN_IF_ERROR(ResolveMediaType(request.media_type, "", "").status());
  }
  if (request.chunk_tokens != 0 && request.chunk_tokens < kMinChunkTokens) {
    return InvalidField("chunk_tokens", StrCat("must be ", kMinChunkTokens, " or more, got ",
                                               request.chunk_tokens));
  }
  if (request.source == nullptr || !request.source->finished()) {
    return InvalidField("source", "is missing or was not finished");
  }
  StoredJob stored;
  Job& job = stored.job;
  job.collection = std::move(request.collection);
  job.document_id = std::move(request.document_id);
  job.media_type = std::move(request.media_type);
  job.metadata = std::move(request.metadata);
  job.chunk_tokens = request.chunk_tokens;
  job.sha256 = request.source->sha256();
  job.source_bytes = request.source->size();
  job.created_at = job.updated_at = absl::FromUnixMicros(absl::ToUnixMicros(absl::Now()));
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the ingestor is shutting down");
    if (active_ >= options_.max_queued_jobs) {
      return WithRetryAfter(WithReason(absl::ResourceExhaustedError(StrCat(
                                           "the ingest queue is full with ", active_, " jobs")),
                                       "INGEST_QUEUE_FULL"),
                            absl::Seconds(5));
    }
    last_id_time_ = std::max<uint64_t>(last_id_time_ + 1,
                                       static_cast<uint64_t>(absl::ToUnixMicros(job.created_at)));
    char id[17];
    std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(last_id_time_));
    job.id = id;
  }
  CAIRN_RETURN_IF_ERROR(store_->Add(stored, request.source.get()));
  std::lock_guard lock(mutex_);
  Insert(stored);
  return job;
}

std::shared_ptr<Entry> IngestorImpl::Pick(absl::Time* wake) {
  *wake = absl::InfiniteFuture();
  const absl::Time now = absl::Now();
  for (auto it = ready_.begin(); it != ready_.end(); ++it) {
    const std::shared_ptr<Entry>& entry = entries_.at(*it);
    if (deleting_.contains(entry->key())) continue;
    if (large_running_ && IsLarge(entry->stored.job)) continue;
    if (entry->not_before > now) {
      *wake = std::min(*wake, entry->not_before);
      continue;
    }
    ready_.erase(it);
    large_running_ = large_running_ || IsLarge(entry->stored.job);
    entry->cancel = CancelSource();
    entry->cancel_requested = false;
    Job& job = entry->stored.job;
    job.state = JobState::kRunning;
    job.stage = JobStage::kParsing;
    job.updated_at = now;
    ++job.attempts;
    Changed(entry.get());
    return entry;
  }
  return nullptr;
}

void IngestorImpl::Work() {
  while (true) {
    std::shared_ptr<Entry> entry;
    {
      std::unique_lock lock(mutex_);
      while (!stopping_) {
        absl::Time wake;
        entry = Pick(&wake);
        if (entry != nullptr) break;
        WaitForChange(&lock, wake);
      }
      if (entry == nullptr) return;
    }
    RunOne(entry);
  }
}

void IngestorImpl::RunOne(const std::shared_ptr<Entry>& entry) {
  StoredJob stored;
  std::optional<RequestContext> context;
  {
    std::lock_guard lock(mutex_);
    entry->stored.vectors_bytes = FileSize(store_->VectorsPath(entry->stored.job.id));
    stored = entry->stored;
    context.emplace(entry->cancel);
  }
  Save(stored);
  PipelineEvents events;
  events.on_progress = [&](JobStage stage, uint32_t done, uint32_t total) {
    std::lock_guard lock(mutex_);
    Job& job = entry->stored.job;
    job.stage = stage;
    job.chunks_done = done;
    job.chunks_total = total;
    job.updated_at = absl::Now();
    Changed(entry.get());
  };
  events.on_media_type = [&](const std::string& media_type) {
    std::lock_guard lock(mutex_);
    entry->stored.job.media_type = media_type;
  };
  events.before_commit = [&](uint64_t base_version) {
    StoredJob copy;
    {
      std::lock_guard lock(mutex_);
      entry->stored.commit_begun = true;
      entry->stored.base_version = base_version;
      copy = entry->stored;
    }
    return store_->Save(copy);
  };
  const absl::StatusOr<PipelineResult> result =
      RunPipeline(*context, stored, *store_, options_, embedder_, sink_, events);
  absl::Duration delay = absl::ZeroDuration();
  FinishRun(entry, Conclude(entry, result, &delay), delay);
}

// The job as it stands after a run, and how long to wait when it is to be tried again.
StoredJob IngestorImpl::Conclude(const std::shared_ptr<Entry>& entry,
                                 const absl::StatusOr<PipelineResult>& result,
                                 absl::Duration* delay) {
  std::lock_guard lock(mutex_);
  StoredJob stored = entry->stored;
  Job& job = stored.job;
  job.updated_at = absl::Now();
  job.stage = JobStage::kDone;
  if (result.ok()) {
    job.state = JobState::kSucceeded;
    job.outcome = result->outcome;
    job.version = result->version;
    job.error = absl::OkStatus();
    return stored;
  }
  const absl::Status& error = result.status();
  if (entry->cancel_requested && (absl::IsCancelled(error) || IsTransient(error))) {
    job.state = JobState::kCancelled;
    return stored;
  }
  if (stopping_ && absl::IsCancelled(error)) {
    // Not its fault: as if the run had not begun.
    job.state = JobState::kQueued;
    job.stage = JobStage::kWaiting;
    --job.attempts;
    return stored;
  }
  job.error = error;
  if (!IsTransient(error) || ++stored.failures >= options_.max_attempts) {
    job.state = JobState::kFailed;
    return stored;
  }
  job.state = JobState::kQueued;
  job.stage = JobStage::kWaiting;
  *delay = options_.first_backoff * std::ldexp(1.0, std::min(stored.failures - 1, 20));
  if (const auto wanted = RetryAfterOf(error)) *delay = std::max(*delay, *wanted);
  *delay = std::min(*delay, options_.max_backoff);
  return stored;
}

void IngestorImpl::FinishRun(const std::shared_ptr<Entry>& entry, StoredJob done,
                             absl::Duration delay) {
  // On disk first: whoever hears of an end may rely on it.
  Save(done);
  if (done.job.terminal()) store_->DropData(done.job.id);
  std::lock_guard lock(mutex_);
  // A cancel that came too late for the run is not lost when the job would be tried again.
  const bool cancel_retry = done.job.state == JobState::kQueued && entry->cancel_requested;
  entry->stored = std::move(done);
  Job& job = entry->stored.job;
  if (IsLarge(job)) large_running_ = false;
  if (cancel_retry) {
    job.state = JobState::kCancelled;
    job.stage = JobStage::kDone;
    Save(entry->stored);
    store_->DropData(job.id);
  }
  if (job.terminal()) {
    Retire(*entry);
    finished_.push_back(job.id);
    ForgetOldJobs();
  } else {
    entry->not_before = absl::Now() + delay;
    ready_.insert(job.id);
  }
  if (job.state == JobState::kFailed) {
    log::Warning("ingest job failed", {{"job", job.id},
                                       {"attempts", job.attempts},
                                       {"code", absl::StatusCodeToString(job.error.code())},
                                       {"reason", ReasonOf(job.error)}});
  }
  Changed(entry.get());
}

void IngestorImpl::Retire(const Entry& entry) {
  const auto it = lines_.find(entry.key());
  std::deque<std::shared_ptr<Entry>>& line = it->second;
  line.erase(std::find_if(line.begin(), line.end(), [&](const std::shared_ptr<Entry>& other) {
    return other.get() == &entry;
  }));
  ready_.erase(entry.stored.job.id);
  --active_;
  if (line.empty()) {
    lines_.erase(it);
  } else if (line.front()->stored.job.state == JobState::kQueued) {
    ready_.insert(line.front()->stored.job.id);
  }
}

void IngestorImpl::ForgetOldJobs() {
  while (finished_.size() > options_.kept_finished_jobs) {
    store_->Remove(finished_.front());
    entries_.erase(finished_.front());
    finished_.pop_front();
  }
}

absl::StatusOr<Job> IngestorImpl::WatchJob(const RequestContext& context, std::string_view job_id,
                                           const std::function<bool(const Job&)>& on_change) {
  struct Watcher {
    explicit Watcher(IngestorImpl* ingestor) : ingestor(ingestor) { Add(1); }
    ~Watcher() { Add(-1); }
    void Add(int n) {
      std::lock_guard lock(ingestor->mutex_);
      ingestor->watchers_ += n;
      ingestor->changed_.notify_all();
    }
    IngestorImpl* ingestor;
  };
  const Watcher watcher(this);
  // Registered and unregistered without our lock: the callback takes it.
  const CancelRegistration wake = context.OnCancel([this] {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::shared_ptr<Entry> entry;
  uint64_t seen = 0;
  {
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(entry, Lookup(job_id));
    seen = entry->revision;
  }
  while (true) {
    Job job;
    {
      std::lock_guard lock(mutex_);
      job = entry->stored.job;
      seen = entry->revision;
    }
    const bool go_on = on_change(job);
    if (job.terminal()) return job;
    if (!go_on) return absl::CancelledError("the watcher stopped");
    std::unique_lock lock(mutex_);
    while (entry->revision == seen) {
      CAIRN_RETURN_IF_ERROR(context.Check());
      if (stopping_) return absl::UnavailableError("the ingestor is shutting down");
      WaitForChange(&lock, context.deadline());
    }
  }
}

absl::StatusOr<Job> IngestorImpl::CancelJob(std::string_view job_id) {
  std::optional<CancelSource> running;
  Job out;
  {
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Lookup(job_id));
    Job& job = entry->stored.job;
    if (job.state == JobState::kQueued) {
      job.state = JobState::kCancelled;
      job.stage = JobStage::kDone;
      job.updated_at = absl::Now();
      Save(entry->stored);
      store_->DropData(job.id);
      Retire(*entry);
      finished_.push_back(job.id);
      out = job;
      Changed(entry.get());
      ForgetOldJobs();
      return out;
    }
    if (job.state == JobState::kRunning) {
      entry->cancel_requested = true;
      running = entry->cancel;
    }
    out = job;
  }
  // Without our lock: it runs the callbacks of whatever the job waits for.
  if (running) running->Cancel();
  return out;
}

absl::StatusOr<int> IngestorImpl::Delete(const RequestContext& context, std::string_view collection,
                                         std::string_view document_id) {
  CAIRN_RETURN_IF_ERROR(CheckName("collection", collection, kMaxCollectionBytes));
  CAIRN_RETURN_IF_ERROR(CheckName("document_id", document_id, kMaxDocumentIdBytes));
  CAIRN_RETURN_IF_ERROR(context.Check());
  const Key key{std::string(collection), std::string(document_id)};
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    deleting_.insert(key);  // jobs that are put from now on wait until we are done
    if (const auto line = lines_.find(key); line != lines_.end()) {
      for (const auto& entry : line->second) ids.push_back(entry->stored.job.id);
    }
  }
  absl::Status status;
  for (const std::string& id : ids) {
    (void)CancelJob(id);  // it may have finished and been forgotten meanwhile
    if (!status.ok()) continue;
    const auto ended = WatchJob(context, id, [](const Job&) { return true; });
    if (!ended.ok() && !absl::IsNotFound(ended.status())) status = ended.status();
  }
  const absl::StatusOr<int> deleted =
      status.ok() ? sink_->Delete(context, collection, document_id) : status;
  std::lock_guard lock(mutex_);
  deleting_.erase(deleting_.find(key));
  changed_.notify_all();
  return deleted;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ingestor>> Ingestor::Open(const std::string& dir,
                                                         const IngestOptions& options,
                                                         Embedder* embedder, DocumentSink* sink) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store, JobStore::Open(dir));
  auto ingestor = std::make_unique<IngestorImpl>(options, std::move(store), embedder, sink);
  CAIRN_RETURN_IF_ERROR(ingestor->Start());
  return ingestor;
}

}  // namespace cairn::retrieval
