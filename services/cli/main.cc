// The program `cairn`: the server and the command line, which speaks only the public gRPC API.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "services/cli/command.h"
#include "services/runtime/shutdown.h"

namespace {

constexpr char kFooter[] =
    "Start with `cairn serve`, then `cairn ingest DIR` and `cairn ask \"...\"`.\n"
    "Exit codes: 0 done, 1 failed (or in part), 2 wrong usage, 3 no server, 130 interrupted.\n"
    "Environment: CAIRN_SERVER (default for --server), CAIRN_HOME (default ~/.cairn), NO_COLOR.";

}  // namespace

int main(int argc, char** argv) {
  using namespace cairn::services;
  std::signal(SIGPIPE, SIG_IGN);
  ShutdownSignal::Install();

  CLI::App app("Cairn: answers from your documents, with citations that point at exact bytes",
               "cairn");
  app.set_version_flag("--version", "cairn " CAIRN_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  cli::Globals globals;
  const char* server = std::getenv("CAIRN_SERVER");
  globals.server = server != nullptr && *server != '\0' ? server : "127.0.0.1:7400";
  app.add_option("--server", globals.server, "Address of the server")->capture_default_str();
  app.add_flag("--json", globals.json, "Machine-readable output: one JSON object a line");
  app.fallthrough();

  cli::Run run;
  cli::AddServe(app, globals, &run);
  cli::AddIngest(app, globals, &run);
  cli::AddAsk(app, globals, &run);
  cli::AddSearch(app, globals, &run);
  cli::AddDocuments(app, globals, &run);
  cli::AddDelete(app, globals, &run);
  cli::AddRun(app, globals, &run);
  cli::AddRuns(app, globals, &run);
  cli::AddModels(app, globals, &run);
  cli::AddDoctor(app, globals, &run);
  cli::AddEval(app, globals, &run);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? cli::kOk : cli::kUsage;
  }
  return run();
}
