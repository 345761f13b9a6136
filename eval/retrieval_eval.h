// `cairn eval retrieval`: puts a BEIR-layout test set into a collection over the public API,
// searches every judged query in several modes, and reports trec_eval's metrics side by side.
//
// A document is one plain text (title, blank line, text) chunked at the embedder's full window, so
// that most are one chunk; a document's score is that of its best chunk. The collection is kept: a
// second run skips what is unchanged.
#ifndef CAIRN_EVAL_RETRIEVAL_EVAL_H_
#define CAIRN_EVAL_RETRIEVAL_EVAL_H_

#include <atomic>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "eval/metrics.h"

namespace grpc {
class Channel;
}

namespace cairn::eval {

struct RetrievalEvalOptions {
  std::string data_dir;
  std::string collection;  // empty = "eval-" and the folder's name
  // Of "lexical", "vector", "hybrid", "rrf", "reranked".
  std::vector<std::string> modes = {"lexical", "vector", "hybrid", "reranked"};
  bool lexical_only = false;   // creates the collection without vectors
  size_t max_documents = 0;    // 0 = all; otherwise the judged ones first
  double vector_weight = -1;   // of the convex combination; negative = the server's default
  std::string per_query_file;  // JSON Lines, one object a query and mode; empty = none
  bool show_progress = false;  // a counter on `err`
};

struct ModeReport {
  std::string mode;
  Metrics mean;
  size_t num_queries = 0;
  double median_ms = 0;  // per query, as the client sees it
  double p99_ms = 0;
  std::vector<std::string> degraded;
};

struct RetrievalEvalReport {
  std::string data_dir;
  std::string collection;
  size_t num_documents = 0;
  size_t num_empty = 0;  // of them, without any text
  size_t num_queries = 0;
  double ingest_seconds = 0;
  std::vector<ModeReport> modes;
};

// Stops with CANCELLED soon after `*cancelled` turns true.
absl::StatusOr<RetrievalEvalReport> RunRetrievalEval(const RetrievalEvalOptions& options,
                                                     const std::shared_ptr<grpc::Channel>& channel,
                                                     const std::atomic<bool>& cancelled,
                                                     std::ostream& err);

void PrintTable(const RetrievalEvalReport& report, std::ostream& out);
void PrintJson(const RetrievalEvalReport& report, std::ostream& out);

}  // namespace cairn::eval

#endif  // CAIRN_EVAL_RETRIEVAL_EVAL_H_
