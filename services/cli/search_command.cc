// `cairn search`, `cairn documents`, `cairn delete`: what the retrieval role knows.
#include <CLI/CLI.hpp>

#include <iomanip>
#include <iostream>

#include "absl/strings/str_join.h"
#include "cairn/ingest/v1/ingest_service.grpc.pb.h"
#include "cairn/retrieval/v1/retrieval_service.grpc.pb.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "services/cli/command.h"
#include "services/cli/session.h"
#include "services/cli/terminal.h"
#include "services/clients/role_channel.h"

namespace cairn::services::cli {
namespace {

namespace pb = cairn::retrieval::v1;

struct SearchOptions {
  std::string query;
  std::string collection = "default";
  int top_k = 10;
  std::string mode = "auto";
  std::string rerank = "auto";
  bool rrf = false;
  bool explain = false;
  std::vector<std::string> filter;
};

// The first characters of a text on one line.
std::string Preview(const std::string& text, size_t bytes) {
  std::string line;
  for (char c : text.substr(0, Utf8Floor(text, bytes)))
    line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  return text.size() > bytes ? line + "…" : line;
}

std::string Place(const pb::Chunk& chunk) {
  std::string place =
      StrCat(chunk.document_id(), ":", chunk.span().begin(), "-", chunk.span().end());
  if (chunk.heading_path_size() > 0)
    StrAppend(&place, "  ", absl::StrJoin(chunk.heading_path(), " › "));
  return place;
}

void PrintExplanation(const pb::Explanation& node, int depth) {
  std::cout << std::string(static_cast<size_t>(depth) * 2 + 4, ' ') << std::setprecision(6)
            << node.value() << "  " << node.description() << "\n";
  for (const pb::Explanation& detail : node.details()) PrintExplanation(detail, depth + 1);
}

absl::Status Search(const Globals& globals, const SearchOptions& options) {
  pb::SearchRequest request;
  request.set_query(options.query);
  request.set_collection(options.collection);
  request.set_top_k(options.top_k);
  request.set_explain(options.explain);
  request.set_mode(options.mode == "lexical"  ? pb::SEARCH_MODE_LEXICAL
                   : options.mode == "vector" ? pb::SEARCH_MODE_VECTOR
                   : options.mode == "hybrid" ? pb::SEARCH_MODE_HYBRID
                                              : pb::SEARCH_MODE_UNSPECIFIED);
  request.set_rerank(options.rerank == "on"    ? pb::RERANK_MODE_ON
                     : options.rerank == "off" ? pb::RERANK_MODE_OFF
                                               : pb::RERANK_MODE_UNSPECIFIED);
  if (options.rrf) request.mutable_fusion()->mutable_rrf();
  CAIRN_ASSIGN_OR_RETURN(*request.mutable_filter(), ParseFilter(options.filter));

  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  ClientCall call(CommandContext());
  pb::SearchResponse response;
  CAIRN_RETURN_IF_ERROR(
      call.Result(pb::RetrievalService::NewStub(channel)->Search(call.get(), request, &response)));
  if (globals.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  for (const std::string& stage : response.degraded())
    std::cerr << "cairn: degraded: " << stage << "\n";
  int number = 0;
  for (const pb::SearchHit& hit : response.hits()) {
    std::cout << std::setw(3) << ++number << "  " << std::fixed << std::setprecision(4)
              << hit.score() << "  " << Bold(Place(hit.chunk())) << "\n     "
              << Preview(hit.chunk().text(), 160) << "\n";
    if (options.explain) PrintExplanation(hit.explanation(), 0);
  }
  if (response.hits().empty()) std::cerr << "cairn: nothing found\n";
  if (options.explain) {
    std::cout << "score: " << response.score_kind() << "\n";
    if (response.ignored_words_size() > 0) {
      std::cout << "not searched as terms (question words): "
                << absl::StrJoin(response.ignored_words(), " ") << "\n";
    }
    for (const auto& timing : response.timings()) {
      std::cout << "  " << timing.stage() << " " << std::setprecision(2)
                << static_cast<double>(timing.duration().seconds()) * 1e3 +
                       static_cast<double>(timing.duration().nanos()) / 1e6
                << " ms\n";
    }
  }
  return absl::OkStatus();
}

struct DocumentsOptions {
  std::string collection = "default";
  std::vector<std::string> filter;
  bool collections = false;
};

absl::Status ListCollections(const Globals& globals, pb::RetrievalService::Stub& stub) {
  ClientCall call(CommandContext());
  pb::ListCollectionsResponse response;
  CAIRN_RETURN_IF_ERROR(call.Result(stub.ListCollections(call.get(), {}, &response)));
  for (const pb::Collection& collection : response.collections()) {
    if (globals.json) {
      PrintJson(collection);
    } else {
      std::cout << collection.name() << "  " << collection.num_documents() << " documents, "
                << collection.num_chunks() << " chunks, "
                << (collection.embedder().empty() ? "words only" : collection.embedder()) << "\n";
    }
  }
  return absl::OkStatus();
}

absl::Status Documents(const Globals& globals, const DocumentsOptions& options) {
  pb::ListDocumentsRequest request;
  request.set_collection(options.collection);
  request.set_page_size(500);
  CAIRN_ASSIGN_OR_RETURN(*request.mutable_filter(), ParseFilter(options.filter));
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  const auto stub = pb::RetrievalService::NewStub(channel);
  if (options.collections) return ListCollections(globals, *stub);
  do {
    ClientCall call(CommandContext());
    pb::ListDocumentsResponse response;
    CAIRN_RETURN_IF_ERROR(call.Result(stub->ListDocuments(call.get(), request, &response)));
    for (const pb::Document& document : response.documents()) {
      if (globals.json) {
        PrintJson(document);
      } else {
        std::cout << document.document_id() << "  v" << document.version() << "  "
                  << FormatBytes(static_cast<int64_t>(document.source_bytes())) << "  "
                  << document.num_chunks() << " chunks  " << document.media_type() << "  "
                  << Dim(document.title()) << "\n";
      }
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

struct DeleteOptions {
  std::string collection = "default";
  std::vector<std::string> documents;
};

absl::Status Delete(const Globals& globals, const DeleteOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Connect(globals));
  const auto stub = cairn::ingest::v1::IngestService::NewStub(channel);
  absl::Status first;
  for (const std::string& document : options.documents) {
    ClientCall call(CommandContext());
    cairn::ingest::v1::DeleteDocumentRequest request;
    request.set_collection(options.collection);
    request.set_document_id(document);
    cairn::ingest::v1::DeleteDocumentResponse response;
    const absl::Status status = call.Result(stub->DeleteDocument(call.get(), request, &response));
    if (!status.ok()) {
      first.Update(Annotate(status, document));
    } else if (!globals.json) {
      std::cout << "deleted " << document << "\n";
    }
  }
  return first;
}

template <typename Options, typename Function>
void OnCommand(CLI::App* command, const Globals& globals, std::shared_ptr<Options> options,
               Function function, Run* run) {
  command->callback([&globals, options, function, run] {
    *run = [&globals, options, function] {
      const absl::Status status = function(globals, *options);
      return status.ok() ? kOk : Fail(globals, status);
    };
  });
}

}  // namespace

void AddSearch(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<SearchOptions>();
  CLI::App* command = app.add_subcommand("search", "Find passages");
  command->add_option("query", options->query, "What to look for")->required();
  command->add_option("-c,--collection", options->collection, "Collection")->capture_default_str();
  command->add_option("-k,--top-k", options->top_k, "Passages to show")->capture_default_str();
  command->add_option("--mode", options->mode, "auto, lexical, vector or hybrid")
      ->check(CLI::IsMember({"auto", "lexical", "vector", "hybrid"}))
      ->capture_default_str();
  command->add_option("--rerank", options->rerank, "auto, on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command->add_flag("--rrf", options->rrf, "Fuse by ranks instead of scores");
  command->add_flag("--explain", options->explain, "Show how each score came about");
  command->add_option("--filter", options->filter,
                      "KEY=VALUE or KEY=LOW..HIGH; a key twice means one of");
  OnCommand(command, globals, options, Search, run);
}

void AddDocuments(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<DocumentsOptions>();
  CLI::App* command = app.add_subcommand("documents", "List documents, or collections");
  command->add_option("-c,--collection", options->collection, "Collection")->capture_default_str();
  command->add_option("--filter", options->filter, "KEY=VALUE or KEY=LOW..HIGH");
  command->add_flag("--collections", options->collections, "List collections instead");
  OnCommand(command, globals, options, Documents, run);
}

void AddDelete(CLI::App& app, const Globals& globals, Run* run) {
  auto options = std::make_shared<DeleteOptions>();
  CLI::App* command = app.add_subcommand("delete", "Delete documents");
  command->add_option("document", options->documents, "Document ids")->required();
  command->add_option("-c,--collection", options->collection, "Collection")->capture_default_str();
  OnCommand(command, globals, options, Delete, run);
}

}  // namespace cairn::services::cli
