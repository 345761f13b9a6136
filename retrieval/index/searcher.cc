#include "retrieval/index/searcher.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/strings.h"
#include "retrieval/fusion/fusion.h"
#include "retrieval/query/filter.h"
#include "retrieval/query/validate.h"
#include "retrieval/rerank/rerank.h"
#include "retrieval/text/language.h"
#include "retrieval/vector/flat_scan.h"

namespace cairn::retrieval {
namespace {

// Sets `*time` to how long it lived.
class Stopwatch {
 public:
  explicit Stopwatch(absl::Duration* time)
      : time_(time), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { *time_ = absl::FromChrono(std::chrono::steady_clock::now() - start_); }

 private:
  absl::Duration* time_;
  std::chrono::steady_clock::time_point start_;
};

absl::Status EmbedderMismatch(std::string_view message) {
  return WithReason(absl::FailedPreconditionError(ToAbsl(message)), "EMBEDDER_MISMATCH");
}

}  // namespace

struct Searcher::Candidate {
  FusedChunk fused;
  ScoreDetails details;
  double score = 0;
  std::optional<Chunk> chunk;  // once fetched
};

std::vector<std::string_view> IndexedTexts(std::string_view title, const Chunk& chunk) {
  const std::string_view body = chunk.text;
  std::vector<std::string_view> texts;
  const auto add = [&](std::string_view heading) {
    const bool said = std::find(texts.begin(), texts.end(), heading) != texts.end();
    if (!heading.empty() && !said && !body.starts_with(heading)) texts.push_back(heading);
  };
  add(title);
  for (const std::string& heading : chunk.heading_path) add(heading);
  texts.push_back(body);
  return texts;
}

Searcher::Searcher(const RequestContext& context, const SearchQuery& query,
                   const CollectionState& collection, const Analyzer& analyzer, FetchChunk fetch)
    : context_(context),
      query_(query),
      collection_(collection),
      analyzer_(analyzer),
      fetch_(std::move(fetch)),
      num_candidates_(static_cast<size_t>(std::max(query.candidates, query.top_k))) {}

absl::StatusOr<SearchResult> Searcher::Run(Embedder* embedder, Reranker* reranker) {
  const auto start = std::chrono::steady_clock::now();
  CAIRN_RETURN_IF_ERROR(context_.Check());
  result_.language = LanguageByScript(query_.text);
  const bool rerank = WantsReranking(reranker);
  if (rerank) num_candidates_ = std::max(num_candidates_, static_cast<size_t>(query_.rerank.top));
  const ChunkIdFn id = [this](uint32_t segment, uint32_t chunk) { return IdOf(segment, chunk); };

  std::vector<float> query_vector;
  if (query_.mode != SearchMode::kLexical) {
    const Stopwatch watch(&result_.timings.embed);
    CAIRN_ASSIGN_OR_RETURN(query_vector, QueryVector(embedder));
  }
  ApplyFilter();
  std::optional<std::vector<ScoredChunk>> lexical, vector;
  if (query_.mode != SearchMode::kVector) {
    lexical = Lexical();
    result_.lexical_candidates = lexical->size();
    CAIRN_RETURN_IF_ERROR(context_.Check());
  }
  if (!query_vector.empty()) {
    const Stopwatch watch(&result_.timings.vector);
    std::vector<VectorView> views;
    for (size_t i = 0; i < collection_.segments.size(); ++i) {
      const Segment& segment = *collection_.segments[i].segment;
      views.push_back({segment.vectors.data(), segment.num_chunks(), lexical_views_[i].eligible});
    }
    CAIRN_ASSIGN_OR_RETURN(vector, ScanVectors(context_, query_vector, views, num_candidates_, id));
    result_.vector_candidates = vector->size();
  }

  std::vector<Candidate> candidates;
  {
    const Stopwatch watch(&result_.timings.fuse);
    for (FusedChunk& fused : Fuse(lexical, vector, query_.fusion, id)) {
      Candidate& candidate = candidates.emplace_back();
      candidate.fused = fused;
      candidate.score = candidate.fused.score;
      ScoreDetails& details = candidate.details;
      details.lexical = candidate.fused.lexical;
      details.vector = candidate.fused.vector;
      details.fused = candidate.fused.score;
      details.fused_rank = static_cast<int>(candidates.size());
      if (lexical && vector && query_.fusion.kind == FusionOptions::Kind::kConvex) {
        details.vector_weight = query_.fusion.vector_weight;
        details.lexical_weight = 1 - query_.fusion.vector_weight;
      }
    }
  }
  if (lexical && vector) {
    const bool rrf = query_.fusion.kind == FusionOptions::Kind::kRrf;
    result_.score_kind = rrf ? ScoreKind::kRrf : ScoreKind::kConvex;
  } else {
    result_.score_kind = lexical ? ScoreKind::kBm25 : ScoreKind::kCosine;
  }

  if (rerank && !candidates.empty()) {
    const Stopwatch watch(&result_.timings.rerank);
    CAIRN_RETURN_IF_ERROR(Rerank(reranker, &candidates));
  }
  if (candidates.size() > static_cast<size_t>(query_.top_k)) {
    candidates.resize(static_cast<size_t>(query_.top_k));
  }
  {
    const Stopwatch watch(&result_.timings.fetch);
    for (Candidate& candidate : candidates) {
      if (!candidate.chunk) {
        CAIRN_ASSIGN_OR_RETURN(candidate.chunk, Fetch(candidate));
      }
      const uint32_t s = candidate.fused.segment, c = candidate.fused.chunk;
      const Segment& segment = *collection_.segments[s].segment;
      if (query_.explain && candidate.details.lexical) {
        candidate.details.terms = ExplainBm25(bm25_, lexical_views_[s], c);
      }
      result_.hits.push_back({*std::move(candidate.chunk),
                              *segment.documents[segment.document_of[c]].info, candidate.score,
                              std::move(candidate.details)});
    }
  }
  result_.timings.total = absl::FromChrono(std::chrono::steady_clock::now() - start);
  return std::move(result_);
}

std::string_view Searcher::IdOf(uint32_t segment, uint32_t chunk) const {
  return collection_.segments[segment].segment->chunks[chunk].chunk_id;
}

// Live chunks that pass the filter, per segment.
void Searcher::ApplyFilter() {
  const bool by_language = HasLanguageCondition(query_.filter);
  eligible_.resize(collection_.segments.size());
  for (size_t i = 0; i < collection_.segments.size(); ++i) {
    const SegmentView& view = collection_.segments[i];
    const Segment& segment = *view.segment;
    if (!query_.filter.empty() || view.deleted != nullptr) {
      Bitmap& eligible = eligible_[i] = Bitmap(segment.num_chunks());
      for (const Segment::Document& document : segment.documents) {
        if (view.deleted != nullptr && view.deleted->Get(document.first_chunk)) continue;
        if (!MatchesDocument(query_.filter, *document.info)) continue;
        const uint32_t end = document.first_chunk + document.num_chunks;
        for (uint32_t c = document.first_chunk; c < end; ++c) {
          if (!by_language || MatchesLanguage(query_.filter, segment.chunks[c].language))
            eligible.Set(c);
        }
      }
    }
    const Bitmap* eligible = eligible_[i].size() > 0 ? &eligible_[i] : nullptr;
    lexical_views_.push_back({segment.lexical.get(), view.deleted.get(), eligible});
  }
}

std::vector<ScoredChunk> Searcher::Lexical() {
  AnalyzedQuery analyzed;
  {
    const Stopwatch watch(&result_.timings.analyze);
    analyzed = AnalyzeQuery(analyzer_, query_.text);
  }
  const Stopwatch watch(&result_.timings.lexical);
  result_.stop_words_only = analyzed.stop_words_only;
  result_.question_words = std::move(analyzed.question_words);
  bm25_ = PrepareBm25(analyzed.terms, lexical_views_, collection_.num_chunks(),
                      collection_.total_length());
  return SearchBm25(bm25_, lexical_views_, num_candidates_,
                    [this](uint32_t segment, uint32_t chunk) { return IdOf(segment, chunk); });
}

absl::StatusOr<std::vector<float>> Searcher::QueryVector(Embedder* embedder) {
  const size_t dimension = collection_.record->dimension;
  const bool alone = query_.mode == SearchMode::kVector;
  if (dimension == 0) {
    const std::string message =
        StrCat("collection \"", collection_.record->name, "\" has no vectors");
    if (alone || !query_.vector.empty()) {
      return WithReason(absl::FailedPreconditionError(message), "LEXICAL_COLLECTION");
    }
    Degrade("vector", "LEXICAL_COLLECTION", message);
    return std::vector<float>();
  }
  if (!query_.vector.empty()) {
    if (query_.vector.size() != dimension) {
      return InvalidField("vector",
                          StrCat("must have ", dimension, " values, not ", query_.vector.size()));
    }
    std::vector<float> vector = query_.vector;
    const absl::Status status = NormalizeRows(vector, dimension);
    if (!status.ok()) return InvalidField("vector", ToStd(status.message()));
    return vector;
  }
  absl::StatusOr<std::vector<float>> vector = EmbedText(embedder);
  if (vector.ok()) return vector;
  CAIRN_RETURN_IF_ERROR(context_.Check());
  if (alone || ReasonOf(vector.status()) == "EMBEDDER_MISMATCH") return vector.status();
  Degrade("vector", "EMBEDDER_UNAVAILABLE", ToStd(vector.status().message()));
  return std::vector<float>();
}

absl::StatusOr<std::vector<float>> Searcher::EmbedText(Embedder* embedder) {
  const CollectionRecord& record = *collection_.record;
  if (embedder == nullptr) {
    return WithReason(absl::FailedPreconditionError("no embedder is configured"),
                      "EMBEDDER_UNAVAILABLE");
  }
  CAIRN_ASSIGN_OR_RETURN(const EmbedderInfo info, embedder->Info(context_));
  if (info.fingerprint != record.fingerprint ||
      info.dimension != static_cast<int>(record.dimension)) {
    return EmbedderMismatch(StrCat("collection \"", record.name, "\" was embedded by ",
                                   record.model, " (", record.fingerprint, ", ", record.dimension,
                                   " dimensions); the embedder is ", info.model, " (",
                                   info.fingerprint, ", ", info.dimension, ")"));
  }
  CAIRN_ASSIGN_OR_RETURN(std::vector<float> vector, embedder->EmbedQuery(context_, query_.text));
  if (vector.size() != record.dimension) {
    return EmbedderMismatch(
        StrCat("the embedder gave ", vector.size(), " values for ", record.dimension));
  }
  const absl::Status status = NormalizeRows(vector, record.dimension);
  if (!status.ok()) return absl::InternalError(StrCat("embedder: ", status.message()));
  return vector;
}

absl::StatusOr<Chunk> Searcher::Fetch(const Candidate& candidate) const {
  const Segment& segment = *collection_.segments[candidate.fused.segment].segment;
  const Segment::Document& document = segment.documents[segment.document_of[candidate.fused.chunk]];
  return fetch_(document.uid, candidate.fused.chunk - document.first_chunk, *document.info);
}

bool Searcher::WantsReranking(const Reranker* reranker) {
  if (query_.rerank.mode == RerankMode::kOff || IsBlank(query_.text)) return false;
  if (query_.rerank.mode == RerankMode::kAuto) {
    return reranker != nullptr && reranker->Supports(result_.language);
  }
  if (reranker != nullptr) return true;
  Degrade("rerank", "RERANKER_UNAVAILABLE", "no reranker is configured");
  return false;
}

absl::Status Searcher::Rerank(Reranker* reranker, std::vector<Candidate>* candidates) {
  const size_t count = std::min(candidates->size(), static_cast<size_t>(query_.rerank.top));
  std::vector<std::string> passages;
  for (size_t i = 0; i < count; ++i) {
    Candidate& candidate = (*candidates)[i];
    CAIRN_ASSIGN_OR_RETURN(candidate.chunk, Fetch(candidate));
    const Segment& segment = *collection_.segments[candidate.fused.segment].segment;
    const DocumentInfo& info = *segment.documents[segment.document_of[candidate.fused.chunk]].info;
    std::string& passage = passages.emplace_back();
    for (const std::string_view text : IndexedTexts(info.title, *candidate.chunk)) {
      if (!passage.empty()) passage.push_back('\n');
      passage.append(text);
    }
  }
  const std::vector<std::string_view> views(passages.begin(), passages.end());
  absl::StatusOr<std::vector<float>> logits = reranker->Score(context_, query_.text, views);
  if (logits.ok()) {
    const bool finite =
        std::all_of(logits->begin(), logits->end(), [](float x) { return std::isfinite(x); });
    if (logits->size() != count || !finite) {
      logits = absl::InternalError(StrCat("reranker gave ", logits->size(), " scores for ", count,
                                          " passages", finite ? "" : ", some not finite"));
    }
  }
  if (!logits.ok()) {
    CAIRN_RETURN_IF_ERROR(context_.Check());
    Degrade("rerank", "RERANKER_UNAVAILABLE", ToStd(logits.status().message()));
    return absl::OkStatus();
  }

  std::vector<double> fused;
  for (const Candidate& candidate : *candidates) fused.push_back(candidate.score);
  if (result_.score_kind != ScoreKind::kConvex) fused = MinMax(fused);
  const std::vector<RerankedScore> scores = Interpolate(fused, *logits, query_.rerank.weight);
  for (size_t i = 0; i < candidates->size(); ++i) {
    Candidate& candidate = (*candidates)[i];
    candidate.score = scores[i].score;
    candidate.details.fused_normalised = fused[i];
    candidate.details.rerank_weight = query_.rerank.weight;
    candidate.details.rerank_normalised = scores[i].normalised;
    if (i < count) candidate.details.rerank_logit = (*logits)[i];
  }
  // Stable: equal scores keep the fused order, which has ties by id.
  std::stable_sort(candidates->begin(), candidates->end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  result_.reranked = true;
  result_.score_kind = ScoreKind::kReranked;
  return absl::OkStatus();
}

void Searcher::Degrade(std::string_view stage, std::string_view reason, std::string_view message) {
  result_.degraded.push_back({std::string(stage), std::string(reason), std::string(message)});
}

}  // namespace cairn::retrieval
