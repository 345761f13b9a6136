// `cairn eval retrieval`: retrieval quality over test sets in BEIR layout.
#include <CLI/CLI.hpp>

#include <atomic>
#include <iostream>

#include "eval/retrieval_eval.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"

namespace cairn::services::cli {
namespace {

absl::Status Evaluate(const Globals& globals, eval::RetrievalEvalOptions options,
                      const std::vector<std::string>& folders) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  std::atomic<bool> cancelled{false};
  const CancelRegistration registration =
      CommandContext().OnCancel([&cancelled] { cancelled = true; });
  options.show_progress = StderrIsTerminal();
  for (const std::string& folder : folders) {
    options.data_dir = folder;
    CAIRN_ASSIGN_OR_RETURN(const eval::RetrievalEvalReport report,
                           eval::RunRetrievalEval(options, channel, cancelled, std::cerr));
    if (globals.json) {
      eval::PrintJson(report, std::cout);
    } else {
      eval::PrintTable(report, std::cout);
      std::cout << "\n";
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddEval(CLI::App& app, const Globals& globals, Run* run) {
  CLI::App* command = app.add_subcommand("eval", "Measure quality");
  command->require_subcommand(1);
  auto options = std::make_shared<eval::RetrievalEvalOptions>();
  auto folders = std::make_shared<std::vector<std::string>>();
  CLI::App* retrieval =
      command->add_subcommand("retrieval", "Retrieval over test sets in BEIR layout");
  retrieval
      ->add_option("--data", *folders, "Folders with corpus.jsonl, queries.jsonl and qrels.tsv")
      ->required();
  retrieval->add_option("-c,--collection", options->collection,
                        "Collection to use (default: named after the folder)");
  retrieval->add_option("--modes", options->modes, "Of lexical, vector, hybrid, rrf, reranked")
      ->delimiter(',')
      ->capture_default_str();
  retrieval->add_flag("--lexical-only", options->lexical_only, "No vectors");
  retrieval->add_option("--max-documents", options->max_documents,
                        "Use a part of the corpus (0: all)");
  retrieval->add_option("--vector-weight", options->vector_weight,
                        "Of the convex combination (default: the server's)");
  retrieval->add_option("--per-query", options->per_query_file,
                        "Write results by query as JSON Lines");
  retrieval->callback([&globals, options, folders, run] {
    *run = [&globals, options, folders] {
      const absl::Status status = Evaluate(globals, *options, *folders);
      return status.ok() ? kOk : Fail(globals, status);
    };
  });
}

}  // namespace cairn::services::cli
