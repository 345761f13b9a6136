// What is asked of a search and what comes back, with every number that made the order.
#ifndef CAIRN_RETRIEVAL_QUERY_SEARCH_H_
#define CAIRN_RETRIEVAL_QUERY_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

inline constexpr size_t kMaxQueryBytes = 32 << 10;
inline constexpr int kMaxTopK = 1000;
inline constexpr int kMaxCandidates = 10000;
inline constexpr int kMaxRerankTop = 1000;

enum class SearchMode { kLexical, kVector, kHybrid };

// How two candidate lists become one.
//   kConvex: vector_weight * minmax(cosine) + (1 - vector_weight) * minmax(bm25), over the
//   candidates of each list;
//            a chunk that a list lacks has 0 there. In [0, 1].
//   kRrf:    sum of 1 / (rrf_k + rank) over the lists (Cormack et al., 2009); ranks count from 1.
//   At most 2 / (rrf_k + 1).
struct FusionOptions {
  enum class Kind { kConvex, kRrf };
  Kind kind = Kind::kConvex;
  double vector_weight = 0.5;  // [0, 1]
  double rrf_k = 60;           // (0, 10000]
};

enum class RerankMode {
  kOff,
  kOn,    // whatever the language; when it cannot be done the result says so
  kAuto,  // only when the reranker supports the language of the query
};

struct RerankOptions {
  RerankMode mode = RerankMode::kOff;
  int top = 20;         // 1..kMaxRerankTop fused candidates are scored
  double weight = 0.5;  // [0, 1]: weight * minmax(logit) + (1 - weight) * fused
};

struct SearchQuery {
  std::string collection;
  std::string text;  // UTF-8, not blank, at most kMaxQueryBytes; may be empty when mode is kVector
                     // and `vector` is given
  std::vector<float> vector;  // optional, [dimension]; takes the place of the embedded text
  Filter filter;
  int top_k = 10;        // 1..kMaxTopK
  int candidates = 100;  // 1..kMaxCandidates from each list; raised to top_k and to rerank.top
                         // where those are larger
  SearchMode mode = SearchMode::kHybrid;
  FusionOptions fusion;
  RerankOptions rerank;
  bool explain = false;  // fills ScoreDetails::terms
};

// What `SearchHit::score` is. Thresholds for one kind mean nothing for another.
enum class ScoreKind { kBm25, kCosine, kConvex, kRrf, kReranked };
std::string_view ScoreKindName(ScoreKind kind);  // "bm25", "cosine", "convex", "rrf", "reranked"

// One query term's share: contribution = query_weight * idf * tf / (tf + norm),
// norm = k1 * (1 - b + b * length / average length).
struct TermExplanation {
  std::string term;  // as analysed, with its namespace: "w:" word, "s:" stop word, "u:" character,
                     // "b:" pair of characters
  double query_weight = 1;
  uint32_t tf = 0;
  uint64_t df = 0;          // live chunks that hold the term
  uint64_t num_chunks = 0;  // live chunks in the collection
  double idf = 0;
  double norm = 0;
  double contribution = 0;
};

// One list's view of a hit.
struct ListScore {
  double score = 0;       // BM25 or cosine
  int rank = 0;           // from 1
  double normalised = 0;  // min-max over the list's candidates, [0, 1]
};

// Adds up, bit for bit in double arithmetic and in this order:
//   lexical.score = sum of terms[i].contribution
//   fused         = vector_weight * vector.normalised + lexical_weight * lexical.normalised
//   (kConvex)
//                 = 1 / (rrf_k + vector.rank) + 1 / (rrf_k + lexical.rank) (kRrf; an absent list
//                 adds 0) = the one list's score when one list was searched
//   final score   = fused, or with reranking
//                   rerank_weight * rerank_normalised + (1 - rerank_weight) * fused_normalised
// where a hit that was not among the reranked has rerank_normalised 0, so that the order of the
// rest is kept below.
struct ScoreDetails {
  std::optional<ListScore> lexical, vector;
  double lexical_weight = 0, vector_weight = 0;  // of the convex combination
  double fused = 0;
  int fused_rank = 0;  // from 1
  double fused_normalised =
      0;  // fused when it is convex, otherwise min-max over the fused list; set with reranking
  std::optional<double> rerank_logit;
  double rerank_normalised = 0;  // min-max over the reranked, [0, 1]
  double rerank_weight = 0;
  std::vector<TermExplanation> terms;  // with SearchQuery::explain
};

struct SearchHit {
  Chunk chunk;
  DocumentInfo document;  // of the same version as the chunk
  double score = 0;
  ScoreDetails details;
};

// A stage that was asked for and did not run.
struct Degradation {
  std::string stage;   // "vector", "rerank"
  std::string reason;  // stable: EMBEDDER_UNAVAILABLE, RERANKER_UNAVAILABLE, LEXICAL_COLLECTION
  std::string message;
};

struct StageTimings {
  absl::Duration analyze, lexical, embed, vector, fuse, rerank, fetch, total;
};

struct SearchResult {
  std::vector<SearchHit>
      hits;  // score descending, then chunk id ascending; as many as min(top_k, matches)
  ScoreKind score_kind = ScoreKind::kConvex;
  std::vector<Degradation> degraded;
  bool reranked = false;
  bool stop_words_only = false;  // the query has nothing but stop words: they were searched
  std::vector<std::string> question_words;  // of the query, as written; not searched as terms
  std::string language;                     // of the query, by script: "en", "zh" or ""
  uint64_t lexical_candidates = 0, vector_candidates = 0;
  StageTimings timings;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_QUERY_SEARCH_H_
