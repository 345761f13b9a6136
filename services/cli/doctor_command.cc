// `cairn doctor`: is this installation sound? One line a check: ok, warning or failure, and what to
// do.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "common/file.h"
#include "common/status.h"
#include "common/strings.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "retrieval/index/index.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"
#include "services/clients/role_channel.h"
#include "services/config/config.h"
#include "services/models/registry.h"

namespace cairn::services::cli {
namespace {

namespace fs = std::filesystem;
using grpc::health::v1::HealthCheckResponse;

constexpr uint64_t kLowDiskBytes = uint64_t{2} << 30;
constexpr absl::Duration kAskTimeout = absl::Seconds(5);

struct Options {
  std::string data_dir;
  std::string config_file;
  bool ready_only = false;
  bool hash = false;
};

absl::StatusOr<bool> AskHealth(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& name) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(name);
  HealthCheckResponse response;
  ClientCall call(CommandContext().WithTimeout(kAskTimeout));
  CAIRN_RETURN_IF_ERROR(call.Result(
      grpc::health::v1::Health::NewStub(channel)->Check(call.get(), request, &response)));
  return response.status() == HealthCheckResponse::SERVING;
}

int Ready(const Globals& globals) {
  const auto channel = Connect(globals);
  if (!channel.ok()) return Fail(globals, channel.status());
  const auto serving = AskHealth(*channel, "");
  if (!serving.ok()) return Fail(globals, serving.status());
  if (globals.json) std::cout << nlohmann::json{{"ready", *serving}}.dump() << "\n";
  return *serving ? kOk : kFailed;
}

class Doctor {
 public:
  Doctor(const Globals& globals, const Options& options) : globals_(globals), options_(options) {}

  int Run() {
    CheckCpu();
    if (ReadConfig()) {
      CheckDisk();
      CheckModels();
      const bool running = CheckServer();
      CheckData(running);
    }
    return failed_ ? kFailed : kOk;
  }

 private:
  enum Level { kGood, kWarning, kFailure };

  void Say(Level level, const std::string& check, const std::string& text) {
    failed_ |= level == kFailure;
    const char* word = level == kGood ? "ok" : level == kWarning ? "warning" : "failed";
    if (globals_.json) {
      std::cout << nlohmann::json{{"check", check}, {"result", word}, {"message", text}}.dump()
                << "\n";
    } else {
      std::cout << (level == kGood      ? "ok       "
                    : level == kWarning ? "warning  "
                                        : "FAILED   ")
                << Bold(check) << ": " << text << "\n";
    }
  }

  // What the kernels choose from, as the kernel of the system reports it.
  void CheckCpu() {
    std::ifstream file("/proc/cpuinfo");
    std::string line, found;
    while (std::getline(file, line) && !line.starts_with("flags")) {
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      for (const char* known : {"avx2", "avx512f", "avx512_vnni", "amx_int8"}) {
        if (word == known) StrAppend(&found, found.empty() ? "" : ", ", word);
      }
    }
    const bool fast = found.find("avx2") != std::string::npos;
    Say(fast ? kGood : kWarning, "processor",
        fast ? found : "no AVX2: the models run on plain code, very slowly");
  }

  bool ReadConfig() {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    absl::Status status;
    if (!options_.config_file.empty()) status = ReadConfigFile(options_.config_file, &config_);
    if (status.ok()) status = ReadConfigEnvironment(environment, &config_);
    if (status.ok() && !options_.data_dir.empty()) config_.data_dir = options_.data_dir;
    if (status.ok()) status = CheckConfig(config_);
    if (status.ok()) {
      Say(kGood, "configuration",
          options_.config_file.empty() ? "defaults and environment" : options_.config_file);
    } else {
      Say(kFailure, "configuration", std::string(status.message()));
    }
    return status.ok();
  }

  void CheckDisk() {
    fs::path path = config_.DataDir();
    std::error_code error;
    while (!path.empty() && !fs::exists(path, error) && path.has_parent_path() &&
           path != path.parent_path()) {
      path = path.parent_path();
    }
    const fs::space_info space = fs::space(path, error);
    if (error) return Say(kFailure, "disk", StrCat(path.string(), ": ", error.message()));
    const bool low = space.available < kLowDiskBytes;
    Say(low ? kWarning : kGood, "disk",
        StrCat(FormatBytes(static_cast<int64_t>(space.available)), " free under ", path.string()));
  }

  void CheckModels() {
    const auto registry = ModelRegistry::Load();
    if (!registry.ok()) return Say(kFailure, "models", std::string(registry.status().message()));
    CheckModel(*registry, "generator", config_.models.generator, kFailure);
    CheckModel(*registry, "embedder", config_.models.embedder, kFailure);
    CheckModel(*registry, "reranker", config_.models.reranker, kWarning);
  }

  void CheckModel(const ModelRegistry& registry, const std::string& role, const std::string& name,
                  Level when_missing) {
    if (name.empty()) return Say(kGood, role, "none, as configured");
    const auto path = registry.PathOf(name);
    if (!path.ok()) return Say(when_missing, role, std::string(path.status().message()));
    const std::string expected = ExpectedSha256(registry, name);
    if (!options_.hash || expected.empty()) return Say(kGood, role, *path);
    const auto sum = Sha256HexOfFile(*path);
    if (!sum.ok()) return Say(kFailure, role, std::string(sum.status().message()));
    if (*sum != expected) {
      return Say(kFailure, role,
                 StrCat(*path, " has sha256 ", *sum, ", not ", expected,
                        ": cairn models fetch --force ", name));
    }
    Say(kGood, role, StrCat(*path, ", sha256 as in the manifest"));
  }

  // Of a model that is installed as it is downloaded; converted ones have no sum of their own.
  static std::string ExpectedSha256(const ModelRegistry& registry, const std::string& name) {
    const auto entry = registry.Find(name);
    if (!entry.ok()) return "";
    for (const ModelSource& source : (*entry)->sources) {
      if (source.format == SourceFormat::kGguf && source.files.size() == 1)
        return source.files[0].sha256;
    }
    return "";
  }

  bool CheckServer() {
    const auto channel = Connect(globals_);
    if (!channel.ok()) {
      Say(kWarning, "server", std::string(channel.status().message()));
      return false;
    }
    const auto serving = AskHealth(*channel, "");
    if (!serving.ok()) {
      Say(kFailure, "server", std::string(serving.status().message()));
    } else {
      Say(*serving ? kGood : kWarning, "server",
          StrCat(globals_.server, *serving ? " answers" : " runs, and is not ready yet"));
    }
    for (const char* role : {"generator", "embedder", "reranker"}) {
      const auto model = AskHealth(*channel, StrCat("cairn.model.", role));
      if (model.ok() && !*model) Say(kWarning, "server", StrCat("the ", role, " cannot be used"));
    }
    return true;
  }

  void CheckData(bool server_running) {
    const std::string dir = config_.DataDir();
    std::error_code error;
    if (!fs::exists(dir, error)) return Say(kGood, "data", dir + " does not exist yet");
    const auto lock = DirectoryLock::Acquire(dir);
    if (!lock.ok()) {
      return Say(server_running ? kGood : kWarning, "data",
                 StrCat(lock.status().message(), ": stop the server to have the data verified"));
    }
    if (!fs::exists(dir + "/index", error)) return Say(kGood, "data", dir + " is empty");
    const auto index = retrieval::Index::Open(dir + "/index", {});
    if (!index.ok()) return Say(kFailure, "data", std::string(index.status().message()));
    const auto report = (*index)->Verify(CommandContext());
    if (!report.ok()) return Say(kFailure, "data", std::string(report.status().message()));
    for (const std::string& problem : report->problems) Say(kFailure, "data", problem);
    if (report->problems.empty()) {
      Say(kGood, "data",
          StrCat(dir, ": ", report->num_documents, " documents, ", report->num_chunks, " chunks, ",
                 FormatBytes(static_cast<int64_t>(report->num_bytes)), " verified"));
    }
  }

  const Globals& globals_;
  const Options& options_;
  ServerConfig config_;
  bool failed_ = false;
};

}  // namespace

void AddDoctor(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("doctor", "Check the installation, the models and the data");
  command->add_option("--data", options->data_dir, "Data directory");
  command->add_option("--config", options->config_file, "Configuration file of the server");
  command->add_flag("--hash", options->hash,
                    "Also compute the models' checksums (reads every byte)");
  command->add_flag(
      "--ready", options->ready_only,
      "Only ask the server whether it can answer: exit 0 ready, 1 not yet, 3 no server");
  command->callback([&globals, options, run] {
    *run = [&globals, options] {
      return options->ready_only ? Ready(globals) : Doctor(globals, *options).Run();
    };
  });
}

}  // namespace cairn::services::cli
