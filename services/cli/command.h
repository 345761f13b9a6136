// The commands of `cairn`, and what they share.
//
// Exit codes: 0 done, 1 failed (or in part), 2 wrong usage, 3 no server at the address, 130
// interrupted. Results go to standard output (with --json as one JSON object a line), everything
// else to standard error.
#ifndef CAIRN_SERVICES_CLI_COMMAND_H_
#define CAIRN_SERVICES_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace cairn::services::cli {

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kNoServer = 3, kInterrupted = 130 };

// Flags before the command.
struct Globals {
  std::string server;  // HOST:PORT of the gRPC API
  bool json = false;
};

// Each adds its command to the program and sets `*run` when that command was chosen.
using Run = std::function<int()>;
void AddServe(CLI::App& app, const Globals& globals, Run* run);
void AddIngest(CLI::App& app, const Globals& globals, Run* run);
void AddAsk(CLI::App& app, const Globals& globals, Run* run);
void AddSearch(CLI::App& app, const Globals& globals, Run* run);
void AddDocuments(CLI::App& app, const Globals& globals, Run* run);
void AddDelete(CLI::App& app, const Globals& globals, Run* run);
void AddRun(CLI::App& app, const Globals& globals, Run* run);
void AddRuns(CLI::App& app, const Globals& globals, Run* run);
void AddModels(CLI::App& app, const Globals& globals, Run* run);
void AddDoctor(CLI::App& app, const Globals& globals, Run* run);
void AddEval(CLI::App& app, const Globals& globals, Run* run);

}  // namespace cairn::services::cli

#endif  // CAIRN_SERVICES_CLI_COMMAND_H_
