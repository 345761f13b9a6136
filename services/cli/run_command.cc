// `cairn run`, `cairn runs`: agent runs.
#include <CLI/CLI.hpp>

#include <iostream>

#include "absl/time/time.h"
#include "cairn/agent/v1/agent_service.grpc.pb.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"
#include "services/clients/role_channel.h"

namespace cairn::services::cli {
namespace {

namespace pb = cairn::agent::v1;

struct RunOptions {
  std::string task;
  std::string collection = "default";
  int max_turns = 0;
  int max_calls = 0;
};

std::string_view StatusName(pb::RunStatus status) {
  switch (status) {
    case pb::RUN_STATUS_RUNNING:
      return "running";
    case pb::RUN_STATUS_COMPLETED:
      return "completed";
    case pb::RUN_STATUS_GAVE_UP:
      return "gave up";
    case pb::RUN_STATUS_LIMIT:
      return "limit reached";
    case pb::RUN_STATUS_FAILED:
      return "failed";
    case pb::RUN_STATUS_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

std::string Shorten(const std::string& text, size_t bytes) {
  std::string line;
  for (char c : text.substr(0, Utf8Floor(text, bytes))) line += c == '\n' ? ' ' : c;
  return text.size() > bytes ? line + "…" : line;
}

void PrintStep(const pb::RunStep& step) {
  std::cout << Dim(StrCat(step.index(), "  "));
  switch (step.kind_case()) {
    case pb::RunStep::kModelTurn:
      std::cout << "model: " << Shorten(step.model_turn().text(), 300) << "\n";
      break;
    case pb::RunStep::kToolCall:
      std::cout << Bold(step.tool_call().tool()) << " "
                << Shorten(step.tool_call().arguments_json(), 300) << "\n";
      break;
    case pb::RunStep::kToolResult:
      std::cout << (step.tool_result().is_error() ? "error: " : "result: ")
                << Shorten(step.tool_result().content(), 300) << "\n";
      break;
    case pb::RunStep::kRefusal:
      std::cout << "refused " << step.refusal().tool() << ": " << step.refusal().reason() << "\n";
      break;
    default:
      std::cout << "\n";
  }
}

int PrintResult(const pb::RunCompleted& result) {
  std::cout << "\n" << result.answer() << "\n";
  if (!result.missing().empty()) std::cout << "missing: " << result.missing() << "\n";
  std::cout << Dim(StrCat(StatusName(result.status()), " after ", result.turns(), " turns, ",
                          result.tool_calls(), " tool calls, ",
                          result.usage().prompt_tokens() + result.usage().completion_tokens(),
                          " tokens"))
            << "\n";
  return result.status() == pb::RUN_STATUS_COMPLETED ? kOk : kFailed;
}

absl::StatusOr<int> RunTask(const Globals& globals, const RunOptions& options) {
  pb::RunRequest request;
  request.set_task(options.task);
  request.set_collection(options.collection);
  request.mutable_limits()->set_max_turns(options.max_turns);
  request.mutable_limits()->set_max_tool_calls(options.max_calls);
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  ClientCall call(CommandContext());
  auto reader = pb::AgentService::NewStub(channel)->Run(call.get(), request);
  pb::RunResponse event;
  int code = kFailed;
  while (reader->Read(&event)) {
    if (event.has_completed())
      code = event.completed().status() == pb::RUN_STATUS_COMPLETED ? kOk : kFailed;
    if (globals.json) {
      PrintJson(event);
    } else if (event.has_started()) {
      std::cerr << "cairn: run " << event.started().run_id() << "\n";
    } else if (event.has_step()) {
      PrintStep(event.step());
      std::cout << std::flush;
    } else if (event.has_completed()) {
      PrintResult(event.completed());
    }
  }
  CAIRN_RETURN_IF_ERROR(call.Result(reader->Finish()));
  return code;
}

absl::StatusOr<int> ShowRuns(const Globals& globals, const std::string& run_id) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  const auto stub = pb::AgentService::NewStub(channel);
  if (!run_id.empty()) {
    ClientCall call(CommandContext());
    pb::GetRunRequest request;
    request.set_run_id(run_id);
    pb::GetRunResponse response;
    CAIRN_RETURN_IF_ERROR(call.Result(stub->GetRun(call.get(), request, &response)));
    if (globals.json) {
      PrintJson(response);
      return kOk;
    }
    std::cout << Bold(response.summary().task()) << "\n";
    for (const pb::RunStep& step : response.steps()) PrintStep(step);
    PrintResult(response.result());
    return kOk;
  }
  pb::ListRunsRequest request;
  do {
    ClientCall call(CommandContext());
    pb::ListRunsResponse response;
    CAIRN_RETURN_IF_ERROR(call.Result(stub->ListRuns(call.get(), request, &response)));
    for (const pb::RunSummary& summary : response.runs()) {
      if (globals.json) {
        PrintJson(summary);
        continue;
      }
      std::cout << summary.run_id() << "  "
                << absl::FormatTime("%Y-%m-%d %H:%M:%S",
                                    absl::FromUnixSeconds(summary.started_at().seconds()),
                                    absl::LocalTimeZone())
                << "  " << StatusName(summary.status()) << "  " << Shorten(summary.task(), 100)
                << "\n";
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return kOk;
}

Run Wrap(const Globals& globals, std::function<absl::StatusOr<int>()> work) {
  return [&globals, work = std::move(work)] {
    const absl::StatusOr<int> code = work();
    return code.ok() ? *code : Fail(globals, code.status());
  };
}

}  // namespace

void AddRun(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Work on a task with tools (search, fetch chunk, calculator)");
  command->add_option("task", options->task, "The task")->required();
  command->add_option("-c,--collection", options->collection, "Collection that the tools see")
      ->capture_default_str();
  command->add_option("--max-turns", options->max_turns, "Model turns (0: the default)");
  command->add_option("--max-tool-calls", options->max_calls, "Tool calls (0: the default)");
  command->callback([&globals, options, run] {
    *run = Wrap(globals, [&globals, options] { return RunTask(globals, *options); });
  });
}

void AddRuns(CLI::App& app, const Globals& globals, Run* run) {
  auto run_id = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("runs", "List agent runs, or show the steps of one");
  command->add_option("run", *run_id, "Run id");
  command->callback([&globals, run_id, run] {
    *run = Wrap(globals, [&globals, run_id] { return ShowRuns(globals, *run_id); });
  });
}

}  // namespace cairn::services::cli
