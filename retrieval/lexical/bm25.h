// BM25 over lexical segments.
//
//   score(q, c) = sum over query terms t of weight_t * idf(t) * tf / (tf + k1 * (1 - b + b * length
//   / average length)) idf(t)      = ln(1 + (N - df + 0.5) / (df + 0.5))          (Lucene's:
//   positive for every df <= N)
//
// N, df and the average length count the live chunks of all segments, so that they equal those of
// an index rebuilt without the deleted ones.
#ifndef CAIRN_RETRIEVAL_LEXICAL_BM25_H_
#define CAIRN_RETRIEVAL_LEXICAL_BM25_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "retrieval/bitmap.h"
#include "retrieval/lexical/segment.h"
#include "retrieval/query/search.h"
#include "retrieval/text/analyzer.h"
#include "retrieval/top_k.h"

namespace cairn::retrieval {

inline constexpr double kBm25K1 = 1.2;
inline constexpr double kBm25B = 0.75;

struct LexicalView {
  const LexicalSegment* segment = nullptr;
  const Bitmap* deleted = nullptr;   // [num_chunks]; null = none
  const Bitmap* eligible = nullptr;  // [num_chunks] live and passing the filter; null = all
};

struct QueryTerm {
  std::string text;
  double weight = 1;  // how often the query says it
};

struct AnalyzedQuery {
  std::vector<QueryTerm> terms;             // in order of first appearance, unique
  bool stop_words_only = false;             // `terms` are stop words, since there was nothing else
  std::vector<std::string> question_words;  // left out, as written
};
// Leaves out stop words, and question words (text/question_words.h) where another word is left.
AnalyzedQuery AnalyzeQuery(const Analyzer& analyzer, std::string_view text);

// A query with its collection-wide statistics filled in.
struct Bm25Query {
  struct Term {
    std::string text;
    double weight = 1;
    uint64_t df = 0;
    double idf = 0;
  };
  std::vector<Term> terms;  // those with df > 0
  uint64_t num_chunks = 0;
  double average_length = 0;

  double Norm(uint32_t length) const {
    return kBm25K1 * (1 - kBm25B + kBm25B * length / average_length);
  }
};
// `num_chunks` and `total_length` are sums over the live chunks of `views`.
Bm25Query PrepareBm25(const std::vector<QueryTerm>& terms, std::span<const LexicalView> views,
                      uint64_t num_chunks, uint64_t total_length);

// The `k` best eligible chunks that hold a query term. Skips what cannot enter (MaxScore over block
// maxima: Turtle and Flood 1995, Ding and Suel 2011); ids and scores are those of scoring every
// chunk.
std::vector<ScoredChunk> SearchBm25(const Bm25Query& query, std::span<const LexicalView> views,
                                    size_t k, const ChunkIdFn& id);

// The score of one chunk, term by term: the sum of the contributions, in order, is SearchBm25's
// score. Terms that the chunk lacks are left out.
std::vector<TermExplanation> ExplainBm25(const Bm25Query& query, const LexicalView& view,
                                         uint32_t chunk);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_LEXICAL_BM25_H_
