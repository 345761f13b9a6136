#include "eval/retrieval_eval.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>

#include "cairn/ingest/v1/ingest_service.grpc.pb.h"
#include "cairn/retrieval/v1/retrieval_service.grpc.pb.h"
#include "common/strings.h"
#include "eval/dataset.h"

namespace cairn::eval {
namespace {

namespace ingest = cairn::ingest::v1;
namespace retrieval = cairn::retrieval::v1;
using Clock = std::chrono::steady_clock;

constexpr size_t kJobsInFlight = 64;
constexpr int kDepth = 100;
constexpr size_t kPart = 512 * 1024;

absl::Status FromGrpc(const grpc::Status& status, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      StrCat(what, ": ", status.error_message()));
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The corpus to put in: everything, or the judged documents first and then others up to the limit.
std::vector<const CorpusDocument*> Select(const Dataset& data, size_t limit) {
  std::vector<const CorpusDocument*> selected, rest;
  std::set<std::string> judged;
  for (const auto& [query, judgements] : data.qrels) {
    for (const auto& [id, relevance] : judgements) judged.insert(id);
  }
  for (const CorpusDocument& document : data.corpus) {
    (limit > 0 && !judged.count(document.id) ? rest : selected).push_back(&document);
  }
  if (limit > 0) {
    selected.insert(selected.end(), rest.begin(), rest.end());
    if (selected.size() > limit) selected.resize(limit);
  }
  return selected;
}

class Evaluator {
 public:
  Evaluator(const RetrievalEvalOptions& options, const std::shared_ptr<grpc::Channel>& channel,
            const std::atomic<bool>& cancelled, std::ostream& err)
      : options_(options),
        ingest_(ingest::IngestService::NewStub(channel)),
        retrieval_(retrieval::RetrievalService::NewStub(channel)),
        cancelled_(cancelled),
        err_(err) {}

  absl::StatusOr<RetrievalEvalReport> Run() {
    size_t missing = 0;
    CAIRN_ASSIGN_OR_RETURN(data_, LoadDataset(options_.data_dir, &missing));
    if (missing > 0) err_ << "warning: " << missing << " judged documents are not in the corpus\n";
    report_.data_dir = options_.data_dir;
    report_.collection = options_.collection.empty() ? DefaultCollection() : options_.collection;
    const std::vector<const CorpusDocument*> documents = Select(data_, options_.max_documents);
    report_.num_documents = documents.size();
    if (options_.max_documents > 0) DropQueriesWithoutDocuments(documents);
    report_.num_queries = data_.queries.size();

    CAIRN_RETURN_IF_ERROR(CreateCollection());
    CAIRN_RETURN_IF_ERROR(PutAll(documents));
    CAIRN_RETURN_IF_ERROR(CheckCount(documents.size() - report_.num_empty));
    std::optional<std::ofstream> per_query;
    if (!options_.per_query_file.empty()) {
      per_query.emplace(options_.per_query_file);
      if (!*per_query)
        return absl::PermissionDeniedError(StrCat("cannot write ", options_.per_query_file));
    }
    for (const std::string& mode : options_.modes) {
      CAIRN_ASSIGN_OR_RETURN(ModeReport mode_report,
                             SearchAll(mode, per_query ? &*per_query : nullptr));
      report_.modes.push_back(std::move(mode_report));
    }
    return report_;
  }

 private:
  std::string DefaultCollection() const {
    // scifact -> eval-scifact, xquad/zh -> eval-xquad-zh: the parent tells splits of one set apart.
    const std::filesystem::path path = std::filesystem::weakly_canonical(options_.data_dir);
    std::string name =
        StrCat("eval-", path.parent_path().filename().string(), "-", path.filename().string());
    for (char& c : name) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '-';
    }
    return name.substr(0, 64);
  }

  void DropQueriesWithoutDocuments(const std::vector<const CorpusDocument*>& documents) {
    std::set<std::string> present;
    for (const CorpusDocument* document : documents) present.insert(document->id);
    std::erase_if(data_.queries, [&](const Query& query) {
      const Judgements& judgements = data_.qrels[query.id];
      return !std::all_of(judgements.begin(), judgements.end(), [&](const auto& entry) {
        return entry.second <= 0 || present.count(entry.first);
      });
    });
  }

  absl::Status Alive() const {
    return cancelled_ ? absl::CancelledError("evaluation cancelled") : absl::OkStatus();
  }

  absl::Status CreateCollection() {
    grpc::ClientContext context;
    retrieval::CreateCollectionRequest request;
    request.set_name(report_.collection);
    request.set_lexical_only(options_.lexical_only);
    retrieval::CreateCollectionResponse response;
    const grpc::Status status = retrieval_->CreateCollection(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::ALREADY_EXISTS) return absl::OkStatus();
    return FromGrpc(status, "create collection");
  }

  absl::StatusOr<std::string> Put(const CorpusDocument& document) {
    grpc::ClientContext context;
    ingest::PutDocumentResponse response;
    auto writer = ingest_->PutDocument(&context, &response);
    ingest::PutDocumentRequest request;
    request.mutable_header()->set_collection(report_.collection);
    request.mutable_header()->set_document_id(document.id);
    request.mutable_header()->set_media_type("text/plain");
    request.mutable_header()->set_chunk_tokens(512);
    bool open = writer->Write(request);
    std::string body =
        document.title.empty() ? document.text : StrCat(document.title, "\n\n", document.text);
    for (size_t at = 0; open && at < body.size(); at += kPart) {
      request.set_data(body.substr(at, kPart));
      open = writer->Write(request);
    }
    writer->WritesDone();
    CAIRN_RETURN_IF_ERROR(FromGrpc(writer->Finish(), StrCat("put document ", document.id)));
    return response.job().job_id();
  }

  absl::Status WaitFor(const std::string& job_id, const std::string& document_id) {
    grpc::ClientContext context;
    ingest::WatchJobRequest request;
    request.set_job_id(job_id);
    auto reader = ingest_->WatchJob(&context, request);
    ingest::WatchJobResponse event;
    ingest::Job last;
    while (reader->Read(&event)) {
      if (event.has_finished()) last = event.finished();
      if (cancelled_) context.TryCancel();
    }
    const grpc::Status status = reader->Finish();
    CAIRN_RETURN_IF_ERROR(Alive());
    CAIRN_RETURN_IF_ERROR(FromGrpc(status, "watch job"));
    // Cranfield has one: a document without text is in the set and cannot be found.
    if (last.error_reason() == "EMPTY_DOCUMENT") {
      ++report_.num_empty;
    } else if (last.state() != ingest::JOB_STATE_SUCCEEDED) {
      return absl::InternalError(
          StrCat("document ", document_id, " was not ingested: ", last.error()));
    }
    return absl::OkStatus();
  }

  absl::Status PutAll(const std::vector<const CorpusDocument*>& documents) {
    const Clock::time_point start = Clock::now();
    std::deque<std::pair<std::string, std::string>> in_flight;  // job id, document id
    size_t done = 0;
    auto finish_one = [&]() -> absl::Status {
      const auto [job, document] = in_flight.front();
      in_flight.pop_front();
      CAIRN_RETURN_IF_ERROR(WaitFor(job, document));
      if (++done % 100 == 0 && options_.show_progress) {
        err_ << "\r" << done << "/" << documents.size() << " documents" << std::flush;
      }
      return Alive();
    };
    for (const CorpusDocument* document : documents) {
      if (in_flight.size() >= kJobsInFlight) CAIRN_RETURN_IF_ERROR(finish_one());
      CAIRN_ASSIGN_OR_RETURN(std::string job, Put(*document));
      in_flight.emplace_back(std::move(job), document->id);
    }
    while (!in_flight.empty()) CAIRN_RETURN_IF_ERROR(finish_one());
    if (options_.show_progress) err_ << "\r" << done << "/" << documents.size() << " documents\n";
    report_.ingest_seconds = SecondsSince(start);
    return absl::OkStatus();
  }

  // Other documents in the collection would change every score.
  absl::Status CheckCount(size_t expected) {
    grpc::ClientContext context;
    retrieval::ListCollectionsResponse response;
    CAIRN_RETURN_IF_ERROR(
        FromGrpc(retrieval_->ListCollections(&context, {}, &response), "list collections"));
    for (const retrieval::Collection& collection : response.collections()) {
      if (collection.name() != report_.collection || collection.num_documents() == expected)
        continue;
      return absl::FailedPreconditionError(
          StrCat("collection ", report_.collection, " holds ", collection.num_documents(),
                 " documents, expected ", expected, ": use another --collection"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<retrieval::SearchRequest> RequestFor(const std::string& mode) const {
    retrieval::SearchRequest request;
    request.set_collection(report_.collection);
    request.set_top_k(kDepth);
    request.set_candidates(kDepth);
    request.set_mode(retrieval::SEARCH_MODE_HYBRID);
    request.set_rerank(mode == "reranked" ? retrieval::RERANK_MODE_ON : retrieval::RERANK_MODE_OFF);
    if (mode == "lexical") {
      request.set_mode(retrieval::SEARCH_MODE_LEXICAL);
    } else if (mode == "vector") {
      request.set_mode(retrieval::SEARCH_MODE_VECTOR);
    } else if (mode == "rrf") {
      request.mutable_fusion()->mutable_rrf();
    } else if (mode != "hybrid" && mode != "reranked") {
      return InvalidField("modes", StrCat("unknown mode \"", mode,
                                          "\"; known: lexical, vector, hybrid, rrf, reranked"));
    }
    if (options_.vector_weight >= 0 && (mode == "hybrid" || mode == "reranked")) {
      request.mutable_fusion()->mutable_convex()->set_vector_weight(options_.vector_weight);
    }
    return request;
  }

  absl::StatusOr<ModeReport> SearchAll(const std::string& mode, std::ofstream* per_query) {
    CAIRN_ASSIGN_OR_RETURN(retrieval::SearchRequest request, RequestFor(mode));
    ModeReport mode_report;
    mode_report.mode = mode;
    std::vector<Metrics> all;
    std::vector<double> milliseconds;
    std::set<std::string> degraded;
    for (const Query& query : data_.queries) {
      CAIRN_RETURN_IF_ERROR(Alive());
      request.set_query(query.text);
      grpc::ClientContext context;
      retrieval::SearchResponse response;
      const Clock::time_point start = Clock::now();
      CAIRN_RETURN_IF_ERROR(FromGrpc(retrieval_->Search(&context, request, &response),
                                     StrCat("search for query ", query.id, " (", mode, ")")));
      milliseconds.push_back(SecondsSince(start) * 1000);
      degraded.insert(response.degraded().begin(), response.degraded().end());

      std::map<std::string, double> best;
      for (const retrieval::SearchHit& hit : response.hits()) {
        const auto [it, added] = best.emplace(hit.chunk().document_id(), hit.score());
        if (!added) it->second = std::max(it->second, hit.score());
      }
      Ranking ranking;
      for (const auto& [id, score] : best) ranking.push_back({id, score});
      all.push_back(Evaluate(data_.qrels[query.id], ranking));
      if (per_query != nullptr) WritePerQuery(mode, query, all.back(), ranking, *per_query);
    }
    mode_report.mean = Mean(all);
    mode_report.num_queries = all.size();
    std::sort(milliseconds.begin(), milliseconds.end());
    if (!milliseconds.empty()) {
      mode_report.median_ms = milliseconds[milliseconds.size() / 2];
      mode_report.p99_ms = milliseconds[milliseconds.size() * 99 / 100];
    }
    mode_report.degraded.assign(degraded.begin(), degraded.end());
    return mode_report;
  }

  static void WritePerQuery(const std::string& mode, const Query& query, const Metrics& metrics,
                            const Ranking& ranking, std::ofstream& out) {
    nlohmann::json results = nlohmann::json::array();
    for (const ScoredDocument& document : SortedAsTrecEval(ranking)) {
      results.push_back({{"id", document.document_id}, {"score", document.score}});
    }
    out << nlohmann::json{{"mode", mode},
                          {"query_id", query.id},
                          {"ndcg@10", metrics.ndcg_at_10},
                          {"recall@100", metrics.recall_at_100},
                          {"mrr@10", metrics.mrr_at_10},
                          {"map", metrics.map},
                          {"results", results}}
               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
        << "\n";
  }

  const RetrievalEvalOptions& options_;
  std::unique_ptr<ingest::IngestService::Stub> ingest_;
  std::unique_ptr<retrieval::RetrievalService::Stub> retrieval_;
  const std::atomic<bool>& cancelled_;
  std::ostream& err_;
  Dataset data_;
  RetrievalEvalReport report_;
};

}  // namespace

absl::StatusOr<RetrievalEvalReport> RunRetrievalEval(const RetrievalEvalOptions& options,
                                                     const std::shared_ptr<grpc::Channel>& channel,
                                                     const std::atomic<bool>& cancelled,
                                                     std::ostream& err) {
  return Evaluator(options, channel, cancelled, err).Run();
}

void PrintTable(const RetrievalEvalReport& report, std::ostream& out) {
  out << report.data_dir << ": " << report.num_documents << " documents"
      << (report.num_empty > 0 ? StrCat(" (", report.num_empty, " empty)") : "") << ", "
      << report.num_queries << " queries, collection " << report.collection << "\n\n"
      << std::left << std::setw(10) << "mode" << std::right << std::setw(9) << "nDCG@10"
      << std::setw(12) << "Recall@100" << std::setw(9) << "MRR@10" << std::setw(9) << "MAP"
      << std::setw(12) << "median ms" << std::setw(9) << "p99 ms"
      << "\n";
  for (const ModeReport& mode : report.modes) {
    out << std::left << std::setw(10) << mode.mode << std::right << std::fixed
        << std::setprecision(4) << std::setw(9) << mode.mean.ndcg_at_10 << std::setw(12)
        << mode.mean.recall_at_100 << std::setw(9) << mode.mean.mrr_at_10 << std::setw(9)
        << mode.mean.map << std::setprecision(1) << std::setw(12) << mode.median_ms << std::setw(9)
        << mode.p99_ms << "\n";
    if (mode.mean.ndcg_at_10 < 0.02) {
      out << "  warning: almost nothing was found; do queries, judgements and corpus belong "
             "together?\n";
    }
    for (const std::string& stage : mode.degraded) out << "  degraded: " << stage << "\n";
  }
}

void PrintJson(const RetrievalEvalReport& report, std::ostream& out) {
  nlohmann::json modes = nlohmann::json::array();
  for (const ModeReport& mode : report.modes) {
    modes.push_back({{"mode", mode.mode},
                     {"queries", mode.num_queries},
                     {"ndcg@10", mode.mean.ndcg_at_10},
                     {"recall@100", mode.mean.recall_at_100},
                     {"mrr@10", mode.mean.mrr_at_10},
                     {"map", mode.mean.map},
                     {"median_ms", mode.median_ms},
                     {"p99_ms", mode.p99_ms},
                     {"degraded", mode.degraded}});
  }
  out << nlohmann::json{{"data", report.data_dir},
                        {"collection", report.collection},
                        {"documents", report.num_documents},
                        {"empty_documents", report.num_empty},
                        {"queries", report.num_queries},
                        {"ingest_seconds", report.ingest_seconds},
                        {"modes", modes}}
             .dump()
      << "\n";
}

}  // namespace cairn::eval
