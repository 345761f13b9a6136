// `cairn ingest PATH...`: puts files into a collection and waits for their jobs.
//
// A folder is read recursively in name order; hidden files and folders are skipped, symbolic links
// to files are read, those to folders are not followed. A document's id is its path below the
// argument, so the same call again finds what is unchanged. A file that fails is reported at the
// end, and the others go on. Ctrl-C takes back what was asked for: jobs that have not ended are
// cancelled.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cairn/ingest/v1/ingest_service.grpc.pb.h"
#include "common/file.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"
#include "services/clients/role_channel.h"
#include "services/runtime/shutdown.h"
#include "services/runtime/status_map.h"

namespace cairn::services::cli {
namespace {

namespace fs = std::filesystem;
namespace pb = cairn::ingest::v1;

constexpr size_t kJobsInFlight = 32;
constexpr size_t kPartBytes = 512 << 10;
constexpr absl::Duration kCancelTime = absl::Seconds(5);  // for all jobs, after Ctrl-C

struct Options {
  std::vector<std::string> paths;
  std::string collection = "default";
  std::vector<std::string> extensions = {".md", ".markdown", ".txt", ".text", ".html", ".htm"};
  int chunk_tokens = 0;
};

struct File {
  std::string path;
  std::string document_id;
};

struct Failure {
  std::string path;
  std::string error;
};

bool HasExtension(const fs::path& path, const std::vector<std::string>& extensions) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

// Files under a folder, in name order. What cannot be read becomes a failure.
void Collect(const fs::path& folder, const fs::path& base, const Options& options,
             std::vector<File>* files, std::vector<Failure>* failures) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) failures->push_back({folder.string(), error.message()});
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    if (entry.filename().string().starts_with(".")) continue;
    if (fs::is_directory(fs::symlink_status(entry, error))) {
      Collect(entry, base, options, files, failures);
    } else if (fs::is_regular_file(entry, error) && HasExtension(entry, options.extensions)) {
      files->push_back({entry.string(), entry.lexically_relative(base).generic_string()});
    }
  }
}

class Ingest {
 public:
  Ingest(const Globals& globals, Options options)
      : globals_(globals), options_(std::move(options)) {}

  int Run() {
    const absl::Status status = Work();
    progress_.Clear();
    if (!status.ok() && ShutdownSignal::Received() != 0) CancelJobs();
    if (!status.ok()) return Fail(globals_, status);
    return Report();
  }

 private:
  struct Pending {
    std::string job_id;
    std::string path;
  };

  absl::Status Work() {
    for (const std::string& argument : options_.paths) {
      std::error_code error;
      const fs::path path(argument);
      if (fs::is_directory(path, error)) {
        Collect(path, path, options_, &files_, &failures_);
      } else if (fs::is_regular_file(path, error)) {
        files_.push_back({argument, path.filename().string()});  // named outright: any extension
      } else {
        failures_.push_back({argument, error ? error.message() : "not a file or folder"});
      }
    }
    if (files_.empty()) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals_));
    stub_ = pb::IngestService::NewStub(channel);
    for (const File& file : files_) {
      while (pending_.size() >= kJobsInFlight) CAIRN_RETURN_IF_ERROR(AwaitFirst());
      absl::StatusOr<std::string> job = Put(file);
      // The server wants us to wait: finish something first.
      while (job.status().code() == absl::StatusCode::kResourceExhausted && !pending_.empty()) {
        CAIRN_RETURN_IF_ERROR(AwaitFirst());
        job = Put(file);
      }
      if (job.status().code() == absl::StatusCode::kUnavailable ||
          job.status().code() == absl::StatusCode::kCancelled) {
        return job.status();
      }
      if (job.ok()) {
        pending_.push_back({*std::move(job), file.path});
      } else {
        Failed(file.path, job.status().message());
      }
    }
    while (!pending_.empty()) CAIRN_RETURN_IF_ERROR(AwaitFirst());
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Put(const File& file) {
    if (!IsValidUtf8(file.document_id)) return absl::InvalidArgumentError("the name is not UTF-8");
    std::ifstream stream(file.path, std::ios::binary);
    if (!stream) return absl::PermissionDeniedError("cannot open");
    ClientCall call(CommandContext());
    pb::PutDocumentResponse response;
    auto writer = stub_->PutDocument(call.get(), &response);
    pb::PutDocumentRequest request;
    request.mutable_header()->set_collection(options_.collection);
    request.mutable_header()->set_document_id(file.document_id);
    request.mutable_header()->set_chunk_tokens(options_.chunk_tokens);
    bool open = writer->Write(request);
    std::string part(kPartBytes, '\0');
    while (open && stream) {
      stream.read(part.data(), static_cast<std::streamsize>(part.size()));
      if (stream.gcount() == 0) break;
      request.set_data(part.data(), static_cast<size_t>(stream.gcount()));
      open = writer->Write(request);
    }
    const bool read_failed = stream.bad();
    if (read_failed) call.get()->TryCancel();
    writer->WritesDone();
    const absl::Status status = call.Result(writer->Finish());
    if (read_failed) return absl::DataLossError("cannot read the whole file");
    CAIRN_RETURN_IF_ERROR(status);
    return response.job().job_id();
  }

  // An error only when no further work makes sense.
  absl::Status AwaitFirst() {
    const Pending& pending = pending_.front();
    ClientCall call(CommandContext());
    pb::WatchJobRequest request;
    request.set_job_id(pending.job_id);
    auto reader = stub_->WatchJob(call.get(), request);
    pb::WatchJobResponse event;
    pb::Job job;
    while (reader->Read(&event)) {
      job = event.has_finished() ? event.finished() : event.progress();
      ShowProgress(job);
    }
    CAIRN_RETURN_IF_ERROR(call.Result(reader->Finish()));
    if (job.state() == pb::JOB_STATE_SUCCEEDED) {
      ++done_;
      ++(job.outcome() == pb::JOB_OUTCOME_UNCHANGED  ? unchanged_
         : job.outcome() == pb::JOB_OUTCOME_REPLACED ? replaced_
                                                     : created_);
    } else {
      Failed(pending.path, ToAbsl(job.error().empty() ? "cancelled" : job.error()));
    }
    if (globals_.json) PrintJson(job);
    ShowProgress(job);
    pending_.pop_front();
    return absl::OkStatus();
  }

  // The last ones first, so that none begins while those before it are stopped.
  void CancelJobs() {
    const RequestContext context = RequestContext::Background().WithTimeout(kCancelTime);
    size_t cancelled = 0;
    for (; !pending_.empty(); pending_.pop_back()) {
      const std::string& id = pending_.back().job_id;
      pb::CancelJobRequest request;
      request.set_job_id(id);
      pb::CancelJobResponse response;
      ClientCall call(context);
      const absl::Status status = call.Result(stub_->CancelJob(call.get(), request, &response));
      if (status.ok()) {
        ++cancelled;
      } else if (ReasonOf(status) != "JOB_ENDED") {
        std::cerr << "cairn: job " << id << " (" << pending_.back().path
                  << ") goes on in the server: " << status.message() << "\n";
      }
    }
    std::cerr << "cairn: " << cancelled << " jobs cancelled, " << done_ << " of " << files_.size()
              << " files were done; the same command again takes the rest\n";
  }

  void Failed(const std::string& path, absl::string_view error) {
    ++done_;
    failures_.push_back({path, std::string(error)});
  }

  void ShowProgress(const pb::Job& job) {
    std::string note = StrCat(done_, "/", files_.size(), " ", job.document_id());
    if (job.chunks_total() > 0)
      StrAppend(&note, " (", job.chunks_done(), "/", job.chunks_total(), " chunks)");
    progress_.Show(static_cast<int64_t>(done_), static_cast<int64_t>(files_.size()), note);
  }

  int Report() {
    for (const Failure& failure : failures_) {
      std::cerr << "cairn: " << failure.path << ": " << failure.error << "\n";
    }
    if (files_.empty() && failures_.empty()) {
      std::cerr << "cairn: no files to ingest (looked for";
      for (const std::string& extension : options_.extensions) std::cerr << " " << extension;
      std::cerr << ")\n";
      return kFailed;
    }
    if (!globals_.json) {
      std::cout << created_ << " created, " << replaced_ << " replaced, " << unchanged_
                << " unchanged, " << failures_.size() << " failed in collection "
                << options_.collection << "\n";
    }
    return failures_.empty() ? kOk : kFailed;
  }

  const Globals& globals_;
  const Options options_;
  std::unique_ptr<pb::IngestService::Stub> stub_;
  ProgressLine progress_;
  std::vector<File> files_;
  std::vector<Failure> failures_;
  std::deque<Pending> pending_;  // jobs that were not seen to end
  size_t done_ = 0, created_ = 0, replaced_ = 0, unchanged_ = 0;
};

}  // namespace

void AddIngest(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ingest", "Put files or folders into a collection");
  command
      ->add_option("path", options->paths, "Files and folders (recursive; hidden ones are skipped)")
      ->required();
  command->add_option("-c,--collection", options->collection, "Collection")->capture_default_str();
  command->add_option("--extensions", options->extensions, "Files to take from folders")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--chunk-tokens", options->chunk_tokens,
                      "Tokens a chunk should hold (0: the server's default)");
  command->footer(
      "Ctrl-C cancels the jobs that have not ended; documents that are done stay. The same "
      "command\n"
      "again takes the rest and passes over what is unchanged.");
  command->callback([&globals, options, run] {
    *run = [&globals, options] { return Ingest(globals, *options).Run(); };
  });
}

}  // namespace cairn::services::cli
