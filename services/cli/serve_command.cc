// `cairn serve`: the server.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/status.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/config/config.h"
#include "services/runtime/shutdown.h"
#include "services/server/cairn_server.h"

namespace cairn::services::cli {
namespace {

struct Options {
  std::string config_file;
  // Keys of the configuration and their values, in the order given.
  std::vector<std::pair<std::string, std::string>> settings;
  bool print_config = false;
};

absl::StatusOr<ServerConfig> EffectiveConfig(const Options& options) {
  ServerConfig config;
  if (!options.config_file.empty()) {
    CAIRN_RETURN_IF_ERROR(ReadConfigFile(options.config_file, &config));
  }
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  CAIRN_RETURN_IF_ERROR(ReadConfigEnvironment(environment, &config));
  for (const auto& [key, value] : options.settings) {
    CAIRN_RETURN_IF_ERROR(SetConfigKey(key, value, &config));
  }
  CAIRN_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

absl::Status RunServer(const ServerConfig& config) {
  log::Level level = log::Level::kInfo;
  log::ParseLevel(config.log.level, &level);
  log::Init(level, config.log.format == "json");
  CAIRN_ASSIGN_OR_RETURN(const auto server, CairnServer::Start(config));
  log::Info("listening", {{"grpc", server->grpc_address()},
                          {"http", server->http_address()},
                          {"data", config.DataDir()}});
  const int signal = ShutdownSignal::Wait();
  log::Info("stopping", {{"signal", signal}, {"drain_seconds", config.limits.drain_seconds}});
  server->Shutdown(absl::Seconds(config.limits.drain_seconds));
  log::Info("stopped");
  return absl::OkStatus();
}

int Serve(const Options& options) {
  const auto config = EffectiveConfig(options);
  if (!config.ok()) {
    std::cerr << "cairn: " << config.status().message() << "\n";
    return kUsage;
  }
  if (options.print_config) {
    std::cout << PrintConfig(*config);
    return kOk;
  }
  // A stop that was asked for is no failure, so session.h's Fail has no part in this.
  const absl::Status status = RunServer(*config);
  if (!status.ok()) std::cerr << "cairn: " << status.message() << "\n";
  return status.ok() ? kOk : kFailed;
}

}  // namespace

void AddServe(CLI::App& app, const Globals&, Run* run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("serve", "Run the server");
  command->add_option("--config", options->config_file,
                      "Configuration file (deploy/cairn.sample.yaml shows every key)");
  const auto setting = [&](const char* flag, const char* key, const char* help) {
    command->add_option_function<std::string>(
        flag,
        [options, key](const std::string& value) { options->settings.emplace_back(key, value); },
        help);
  };
  setting("--data", "data_dir", "Data directory (default $CAIRN_HOME/data)");
  setting("--listen", "listen", "Address of the gRPC API (default 127.0.0.1:7400)");
  setting("--http-listen", "http.listen", "Address of the HTTP API (default 127.0.0.1:7480)");
  setting("--roles", "roles", "Roles of this process, comma-separated (default: all)");
  command
      ->add_option_function<std::vector<std::string>>(
          "--set",
          [options](const std::vector<std::string>& values) {
            for (const std::string& value : values) {
              const size_t equals = value.find('=');
              if (equals == std::string::npos) {
                throw CLI::ValidationError("--set", "wants KEY=VALUE, got \"" + value + "\"");
              }
              options->settings.emplace_back(value.substr(0, equals), value.substr(equals + 1));
            }
          },
          "Any key of the configuration, KEY=VALUE; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--print-config", options->print_config,
                    "Print the effective configuration and end");
  command->footer(
      "Flags go before the environment (CAIRN_LIMITS_MAX_UPLOADS=8), and that before the file.");
  command->callback([options, run] { *run = [options] { return Serve(*options); }; });
}

}  // namespace cairn::services::cli
