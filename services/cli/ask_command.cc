// `cairn ask`: a streamed answer, then its numbered citations.
#include <CLI/CLI.hpp>

#include <iostream>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "cairn/agent/v1/agent_service.grpc.pb.h"
#include "common/strings.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"
#include "services/clients/role_channel.h"

namespace cairn::services::cli {
namespace {

namespace pb = cairn::agent::v1;

struct Options {
  std::string question;
  std::string collection = "default";
  std::string session;
  bool new_session = false;
  bool strict = false;
  int top_k = 0;
  int max_tokens = 0;
  std::vector<std::string> filter;
};

std::string OneLine(const std::string& text) {
  std::string line;
  for (char c : text) line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  return line;
}

// "[1] file.md (Heading › Sub), bytes 10-99" and the quotes under it, in the order of first use.
void PrintCitations(const pb::AskCompleted& completed, const std::map<int, pb::Source>& sources) {
  std::vector<int> order;
  std::map<int, std::vector<const pb::Citation*>> by_source;
  std::set<std::pair<std::string, uint64_t>> seen;
  for (const pb::AskSentence& sentence : completed.sentences()) {
    for (const pb::Citation& citation : sentence.citations()) {
      if (!seen.emplace(citation.document_id(), citation.span().begin()).second) continue;
      std::vector<const pb::Citation*>& list = by_source[citation.source_number()];
      if (list.empty()) order.push_back(citation.source_number());
      list.push_back(&citation);
    }
  }
  for (int number : order) {
    const pb::Citation& first = *by_source[number].front();
    std::string head = StrCat("[", number, "] ", first.document_id());
    const auto source = sources.find(number);
    if (source != sources.end() && source->second.heading_path_size() > 0) {
      StrAppend(&head, " (", absl::StrJoin(source->second.heading_path(), " › "), ")");
    }
    std::cout << Bold(head) << "\n";
    for (const pb::Citation* citation : by_source[number]) {
      std::cout << "    bytes " << citation->span().begin() << "-" << citation->span().end()
                << ": \"" << OneLine(citation->text()) << "\"\n";
    }
  }
}

absl::Status Ask(const Globals& globals, const Options& options) {
  pb::AskRequest request;
  request.set_question(options.question);
  request.set_collection(options.collection);
  request.set_session_id(options.session);
  request.set_new_session(options.new_session);
  request.set_policy(options.strict ? pb::SUPPORT_POLICY_STRICT : pb::SUPPORT_POLICY_UNSPECIFIED);
  request.set_top_k(options.top_k);
  request.set_max_tokens(options.max_tokens);
  CAIRN_ASSIGN_OR_RETURN(*request.mutable_filter(), ParseFilter(options.filter));

  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  ClientCall call(CommandContext());
  auto reader = pb::AgentService::NewStub(channel)->Ask(call.get(), request);
  pb::AskResponse event;
  pb::AskCompleted completed;
  std::map<int, pb::Source> sources;
  while (reader->Read(&event)) {
    if (globals.json) {
      PrintJson(event);
      continue;
    }
    switch (event.event_case()) {
      case pb::AskResponse::kSources:
        for (const pb::Source& source : event.sources().sources())
          sources[source.number()] = source;
        break;
      case pb::AskResponse::kText:
        std::cout << event.text().text() << std::flush;
        break;
      case pb::AskResponse::kSentence: {
        std::set<int> numbers;
        for (const pb::Citation& citation : event.sentence().citations()) {
          if (numbers.insert(citation.source_number()).second) {
            std::cout << Dim(StrCat("[", citation.source_number(), "]"));
          }
        }
        if (!event.sentence().supported()) {
          std::cout << Dim(
              StrCat(" (not supported: ", absl::StrJoin(event.sentence().problems(), "; "), ")"));
        }
        std::cout << std::flush;
        break;
      }
      case pb::AskResponse::kCompleted:
        completed = event.completed();
        break;
      default:
        break;
    }
  }
  if (!globals.json) std::cout << "\n";
  CAIRN_RETURN_IF_ERROR(call.Result(reader->Finish()));
  if (globals.json) return absl::OkStatus();
  for (const std::string& stage : completed.degraded())
    std::cerr << "cairn: degraded: " << stage << "\n";
  std::cout << "\n";
  PrintCitations(completed, sources);
  if (!completed.session_id().empty())
    std::cout << Dim(StrCat("session ", completed.session_id())) << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddAsk(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ask", "Answer a question from the documents");
  command->add_option("question", options->question, "The question")->required();
  command->add_option("-c,--collection", options->collection, "Collection")->capture_default_str();
  command->add_option("--session", options->session, "Continue a session");
  command->add_flag("--new-session", options->new_session,
                    "Start a session, so that a next question can refer to this one");
  command->add_flag("--strict", options->strict, "Leave out sentences that no source supports");
  command->add_option("-k,--top-k", options->top_k, "Passages to read (0: the server's default)");
  command->add_option("--max-tokens", options->max_tokens,
                      "Longest answer (0: the server's default)");
  command->add_option("--filter", options->filter, "KEY=VALUE or KEY=LOW..HIGH");
  command->callback([&globals, options, run] {
    *run = [&globals, options] {
      const absl::Status status = Ask(globals, *options);
      return status.ok() ? kOk : Fail(globals, status);
    };
  });
}

}  // namespace cairn::services::cli
