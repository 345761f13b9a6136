#include "retrieval/ingest/job_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/strings.h"

namespace cairn::retrieval {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHalfMade = ".new";
constexpr uint64_t kMaxJobBytes = 4 << 20;

absl::Status FromErrorCode(std::string_view what, const std::string& path,
                           const std::error_code& error) {
  const std::string message = StrCat(what, " ", path, ": ", error.message());
  if (error == std::errc::no_space_on_device) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::InternalError(StrCat("open ", path, ": ", std::strerror(errno)));
  const int result = fsync(fd), error = errno;
  close(fd);
  if (result != 0) return absl::InternalError(StrCat("sync ", path, ": ", std::strerror(error)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListNames(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return FromErrorCode("list", dir, error);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

JobStore::JobStore(const std::string& dir) : jobs_dir_(dir + "/jobs"), spool_dir_(dir + "/spool") {}

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::string& dir) {
  std::unique_ptr<JobStore> store(new JobStore(dir));
  for (const std::string& folder : {store->jobs_dir_, store->spool_dir_}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return FromErrorCode("create", folder, error);
  }
  // Uploads that never became jobs, and jobs whose Put was never answered.
  CAIRN_ASSIGN_OR_RETURN(const auto spooled, ListNames(store->spool_dir_));
  for (const std::string& name : spooled) unlink((store->spool_dir_ + "/" + name).c_str());
  CAIRN_ASSIGN_OR_RETURN(const auto jobs, ListNames(store->jobs_dir_));
  for (const std::string& name : jobs) {
    if (name.ends_with(kHalfMade)) store->Remove(name);
  }
  return store;
}

std::string JobStore::PathOf(std::string_view id, std::string_view file) const {
  return StrCat(jobs_dir_, "/", id, file.empty() ? "" : "/", file);
}

absl::StatusOr<std::vector<StoredJob>> JobStore::Load() const {
  CAIRN_ASSIGN_OR_RETURN(const auto names, ListNames(jobs_dir_));
  std::vector<StoredJob> jobs;
  for (const std::string& name : names) {
    absl::StatusOr<std::string> json = ReadFile(PathOf(name, "job.json"), kMaxJobBytes);
    absl::StatusOr<StoredJob> job = json.ok() ? JobFromJson(*json) : json.status();
    if (job.ok() && job->job.id != name) job = absl::InvalidArgumentError("the id is another");
    if (!job.ok()) {
      log::Error("ingest job cannot be read and is left aside",
                 {{"job", name}, {"error", job.status().ToString()}});
      continue;
    }
    jobs.push_back(*std::move(job));
  }
  return jobs;
}

absl::Status JobStore::Add(const StoredJob& job, SourceSpool* source) {
  // Made under another name and renamed when whole: a job that has its name has all its files.
  const std::string half_made = PathOf(job.job.id + std::string(kHalfMade), "");
  std::error_code error;
  fs::create_directory(half_made, error);
  if (error) return FromErrorCode("create", half_made, error);
  absl::Status status;
  fs::rename(source->path(), half_made + "/source", error);
  if (error) {
    status = FromErrorCode("move", source->path(), error);
  } else {
    source->Release();
    status = WriteFileAtomic(half_made + "/job.json", JobToJson(job));  // syncs the folder too
  }
  if (status.ok()) {
    fs::rename(half_made, PathOf(job.job.id, ""), error);
    status = error ? FromErrorCode("rename", half_made, error) : SyncDirectory(jobs_dir_);
  }
  if (!status.ok()) {
    Remove(job.job.id + std::string(kHalfMade));
    Remove(job.job.id);
  }
  return status;
}

absl::Status JobStore::Save(const StoredJob& job) {
  return WriteFileAtomic(PathOf(job.job.id, "job.json"), JobToJson(job));
}

void JobStore::DropData(std::string_view id) {
  unlink(SourcePath(id).c_str());
  unlink(VectorsPath(id).c_str());
}

void JobStore::Remove(std::string_view id) {
  std::error_code error;
  fs::remove_all(PathOf(id, ""), error);
  if (error) log::Warning("cannot remove an ingest job", {{"job", id}, {"error", error.message()}});
}

}  // namespace cairn::retrieval
