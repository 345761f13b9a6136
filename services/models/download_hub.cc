// Downloads from Hugging Face.
#include <cstdlib>
#include <filesystem>

#include "common/strings.h"
#include "services/models/download.h"
#include "services/models/subprocess.h"

namespace cairn::services {
namespace {

namespace fs = std::filesystem;

std::string Endpoint() {
  const char* mirror = std::getenv("HF_ENDPOINT");
  return mirror != nullptr && *mirror != '\0' ? mirror : "https://huggingface.co";
}

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

absl::StatusOr<CommandResult> RunCurl(const DownloadJob& job, const std::string& url,
                                      const std::string& target) {
  Command command;
  command.argv = {"curl", "--fail", "--location", "--silent", "--show-error", "--retry", "3",
                  "--connect-timeout", "30",
                  // A transfer that stands still is a failed one; the next run goes on from here.
                  "--speed-limit", "1", "--speed-time", "60", "--continue-at", "-", "--output",
                  target, "--", url};
  command.timeout = job.options.command_timeout;
  command.on_tick = [&] { job.progress.Report(SizeOf(target)); };
  absl::StatusOr<CommandResult> result = RunCommand(job.context, command);
  if (absl::IsNotFound(result.status())) {
    return absl::FailedPreconditionError(
        "curl is not installed: install it (apt-get install curl)");
  }
  return result;
}

// The server does not give parts of files (curl's code 33), or has nothing after what we have (HTTP
// 416).
bool CannotContinue(const CommandResult& result) {
  return result.exit_code == 33 ||
         (result.exit_code == 22 && result.output.find("416") != std::string::npos);
}

absl::Status Download(const DownloadJob& job, const std::string& url, const std::string& target) {
  CAIRN_ASSIGN_OR_RETURN(CommandResult result, RunCurl(job, url, target));
  if (CannotContinue(result) && SizeOf(target) > 0) {
    std::error_code error;
    fs::remove(target, error);
    CAIRN_ASSIGN_OR_RETURN(result, RunCurl(job, url, target));
  }
  if (result.exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(StrCat("curl could not download ", url, " (exit code ",
                                       result.exit_code, "): ", Tail(result.output)));
}

absl::Status DownloadFile(const DownloadJob& job, const SourceFile& file, const std::string& path) {
  const std::string partial = path + ".partial";
  const std::string url = StrCat(Endpoint(), "/", job.source.repository, "/resolve/",
                                 job.source.revision, "/", file.path);
  // A whole file that was not yet renamed must not be asked for again: there is nothing after its
  // end.
  if (!CheckFile(partial, file.bytes, file.sha256).ok()) {
    if (file.bytes > 0 && SizeOf(partial) >= file.bytes) {
      std::error_code error;
      fs::remove(partial, error);
    }
    CAIRN_RETURN_IF_ERROR(Download(job, url, partial));
    if (absl::Status status = CheckFile(partial, file.bytes, file.sha256); !status.ok()) {
      std::error_code error;
      fs::remove(partial, error);
      return absl::DataLossError(
          StrCat(url, ": ", std::string(status.message()),
                 "; the file at the source is another one, or was damaged on the way: try again"));
    }
  }
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) return absl::InternalError(StrCat("cannot rename ", partial, ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace

absl::Status DownloadFromHub(const DownloadJob& job) {
  for (size_t i = 0; i < job.source.files.size(); ++i) {
    const SourceFile& file = job.source.files[i];
    const std::string path = StrCat(job.dir, "/", file.name);
    CAIRN_RETURN_IF_ERROR(job.context.Check());
    if (!CheckFile(path, file.bytes, file.sha256).ok()) {
      job.progress.Step(StrCat("downloading file ", i + 1, " of ", job.source.files.size()));
      CAIRN_RETURN_IF_ERROR(DownloadFile(job, file, path));
    }
    job.progress.Finish(file.bytes);
  }
  return absl::OkStatus();
}

}  // namespace cairn::services
