// A retrieval test set in BEIR layout: corpus.jsonl, queries.jsonl, qrels.tsv.
#ifndef CAIRN_EVAL_DATASET_H_
#define CAIRN_EVAL_DATASET_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "eval/metrics.h"

namespace cairn::eval {

struct CorpusDocument {
  std::string id;
  std::string title;
  std::string text;
};

struct Query {
  std::string id;
  std::string text;
};

struct Dataset {
  std::vector<CorpusDocument> corpus;
  std::vector<Query> queries;  // only those with judgements, in file order
  Qrels qrels;
};

// Errors name file and line. Every query that is judged must exist; every judged document should,
// and those that do not are counted in `*missing_documents`.
absl::StatusOr<Dataset> LoadDataset(const std::string& dir, size_t* missing_documents);

}  // namespace cairn::eval

#endif  // CAIRN_EVAL_DATASET_H_
