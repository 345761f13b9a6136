// One search over one snapshot of one collection: the stages in order, and the account of what each
// did.
#ifndef CAIRN_RETRIEVAL_INDEX_SEARCHER_H_
#define CAIRN_RETRIEVAL_INDEX_SEARCHER_H_

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "retrieval/bitmap.h"
#include "retrieval/index/state.h"
#include "retrieval/lexical/bm25.h"
#include "retrieval/ports.h"
#include "retrieval/query/search.h"
#include "retrieval/text/analyzer.h"

namespace cairn::retrieval {

// The texts of a chunk that are indexed and reranked together: the document's title, the headings,
// the body. What the body already begins with is not said twice.
std::vector<std::string_view> IndexedTexts(std::string_view title, const Chunk& chunk);

// Single-thread; made for one search.
class Searcher {
 public:
  using FetchChunk = std::function<absl::StatusOr<Chunk>(uint64_t uid, uint32_t ordinal,
                                                         const DocumentInfo& info)>;

  // All arguments outlive it. REQUIRES: the query is valid.
  Searcher(const RequestContext& context, const SearchQuery& query,
           const CollectionState& collection, const Analyzer& analyzer, FetchChunk fetch);

  absl::StatusOr<SearchResult> Run(Embedder* embedder, Reranker* reranker);

 private:
  struct Candidate;

  void ApplyFilter();
  std::string_view IdOf(uint32_t segment, uint32_t chunk) const;
  // The unit query vector; empty when the search goes on without (and says so).
  absl::StatusOr<std::vector<float>> QueryVector(Embedder* embedder);
  absl::StatusOr<std::vector<float>> EmbedText(Embedder* embedder);
  std::vector<ScoredChunk> Lexical();
  absl::StatusOr<Chunk> Fetch(const Candidate& candidate) const;
  bool WantsReranking(const Reranker* reranker);
  absl::Status Rerank(Reranker* reranker, std::vector<Candidate>* candidates);
  void Degrade(std::string_view stage, std::string_view reason, std::string_view message);

  const RequestContext& context_;
  const SearchQuery& query_;
  const CollectionState& collection_;
  const Analyzer& analyzer_;
  FetchChunk fetch_;
  size_t num_candidates_;
  SearchResult result_;
  std::vector<Bitmap> eligible_;  // [segments]; size 0 = all chunks of the segment
  std::vector<LexicalView> lexical_views_;
  Bm25Query bm25_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_SEARCHER_H_
