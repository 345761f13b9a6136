#include "services/retrieval/convert.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::retrieval::v1;
using ::cairn::common::v1::Condition;

constexpr size_t kMaxConditions = 32;
constexpr size_t kMaxValues = 1024;
constexpr size_t kMaxKeyBytes = 128;
constexpr size_t kMaxStringBytes = 4096;
constexpr int kMaxMetadataEntries = 64;

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

absl::Status CheckKey(std::string_view key, std::string_view field) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return InvalidField(field, StrCat("a key is 1 to ", kMaxKeyBytes, " bytes, got ", key.size()));
  }
  if (!IsValidUtf8(key) || HasControl(key)) {
    return InvalidField(field, "a key is UTF-8 without control characters");
  }
  return absl::OkStatus();
}

absl::StatusOr<retrieval::Condition> ReadCondition(const Condition& in, const std::string& field) {
  retrieval::Condition out;
  CAIRN_RETURN_IF_ERROR(CheckKey(in.key(), field + ".key"));
  out.key = in.key();
  switch (in.test_case()) {
    case Condition::kEquals: {
      CAIRN_ASSIGN_OR_RETURN(auto value, ReadMetadataValue(in.equals(), field + ".equals"));
      out.op = retrieval::Condition::Op::kEquals;
      out.values.push_back(std::move(value));
      return out;
    }
    case Condition::kIn: {
      const auto& values = in.in().values();
      if (values.empty() || values.size() > static_cast<int>(kMaxValues)) {
        return InvalidField(field + ".in.values",
                            StrCat("must hold 1 to ", kMaxValues, " values, got ", values.size()));
      }
      out.op = retrieval::Condition::Op::kIn;
      for (const auto& item : values) {
        CAIRN_ASSIGN_OR_RETURN(auto value, ReadMetadataValue(item, field + ".in.values"));
        out.values.push_back(std::move(value));
      }
      return out;
    }
    case Condition::kRange: {
      out.op = retrieval::Condition::Op::kRange;
      if (!in.range().has_low() && !in.range().has_high()) {
        return InvalidField(field + ".range", "needs a low or a high bound");
      }
      if (std::isnan(in.range().low()) || std::isnan(in.range().high())) {
        return InvalidField(field + ".range", "a bound is not a number");
      }
      if (in.range().has_low()) out.low = in.range().low();
      if (in.range().has_high()) out.high = in.range().high();
      return out;
    }
    case Condition::TEST_NOT_SET:
      break;
  }
  return InvalidField(field, "needs one of equals, in, range");
}

absl::StatusOr<retrieval::Span> ReadSpan(const common::v1::ByteSpan& span, std::string_view field) {
  if (span.begin() > span.end()) {
    return InvalidField(field, StrCat("begin ", span.begin(), " is after end ", span.end()));
  }
  return retrieval::Span{span.begin(), span.end()};
}

void WriteSpan(const retrieval::Span& span, common::v1::ByteSpan* out) {
  out->set_begin(span.begin);
  out->set_end(span.end);
}

std::string ReadableKind(const retrieval::SearchQuery& query,
                         const retrieval::SearchResult& result) {
  std::string kind(retrieval::ScoreKindName(result.score_kind));
  if (!result.reranked) return kind;
  const bool convex = query.fusion.kind == retrieval::FusionOptions::Kind::kConvex;
  return convex ? "convex+rerank" : "rrf+rerank";
}

proto::Explanation Node(double value, std::string description) {
  proto::Explanation node;
  node.set_value(value);
  node.set_description(std::move(description));
  return node;
}

proto::Explanation ExplainLexical(const retrieval::ScoreDetails& details) {
  proto::Explanation node = Node(
      details.lexical->score, StrCat("BM25, the sum of its terms; rank ", details.lexical->rank));
  for (const auto& term : details.terms) {
    *node.add_details() = Node(
        term.contribution, StrCat("term ", term.term, ": query weight ", term.query_weight,
                                  " * idf ", term.idf, " (df ", term.df, " of ", term.num_chunks,
                                  ") * tf ", term.tf, " / (tf + norm ", term.norm, ")"));
  }
  return node;
}

proto::Explanation ExplainFused(const retrieval::SearchQuery& query,
                                const retrieval::ScoreDetails& details) {
  const bool rrf = query.fusion.kind == retrieval::FusionOptions::Kind::kRrf;
  const bool both = query.mode == retrieval::SearchMode::kHybrid &&
                    details.vector_weight + details.lexical_weight > 0;
  std::string description = "the score of the one list searched";
  if (rrf && query.mode == retrieval::SearchMode::kHybrid) {
    description = StrCat("sum of 1 / (", query.fusion.rrf_k, " + rank)");
  } else if (both) {
    description = StrCat(details.vector_weight, " * normalised cosine + ", details.lexical_weight,
                         " * normalised BM25");
  }
  proto::Explanation node = Node(details.fused, StrCat(description, "; rank ", details.fused_rank));
  if (details.lexical) {
    auto* child = node.add_details();
    *child = Node(details.lexical->normalised, "BM25 normalised to 0..1 over its candidates");
    *child->add_details() = ExplainLexical(details);
  }
  if (details.vector) {
    auto* child = node.add_details();
    *child = Node(details.vector->normalised, "cosine normalised to 0..1 over its candidates");
    *child->add_details() =
        Node(details.vector->score, StrCat("cosine; rank ", details.vector->rank));
  }
  return node;
}

proto::Explanation Explain(const retrieval::SearchQuery& query,
                           const retrieval::SearchResult& result, const retrieval::SearchHit& hit) {
  const auto& details = hit.details;
  proto::Explanation fused = ExplainFused(query, details);
  if (!result.reranked) return fused;
  proto::Explanation root =
      Node(hit.score, StrCat(details.rerank_weight, " * normalised reranker logit + ",
                             1 - details.rerank_weight, " * normalised fused score"));
  auto* rerank = root.add_details();
  *rerank =
      Node(details.rerank_normalised, "reranker logit normalised to 0..1; 0 when not reranked");
  if (details.rerank_logit) *rerank->add_details() = Node(*details.rerank_logit, "reranker logit");
  auto* normalised = root.add_details();
  *normalised = Node(details.fused_normalised, "fused score normalised to 0..1");
  *normalised->add_details() = std::move(fused);
  return root;
}

void WriteTiming(const char* stage, absl::Duration duration, proto::SearchResponse* out) {
  if (duration == absl::ZeroDuration()) return;
  auto* timing = out->add_timings();
  timing->set_stage(stage);
  WriteDuration(duration, timing->mutable_duration());
}

}  // namespace

absl::StatusOr<std::string> ReadCollection(std::string_view name, std::string_view field) {
  if (name.empty()) return std::string(kDefaultCollection);
  const auto is_start = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool good = name.size() <= 64 && is_start(name[0]) &&
                    std::all_of(name.begin(), name.end(),
                                [&](char c) { return is_start(c) || c == '_' || c == '-'; });
  if (!good) {
    return InvalidField(
        field,
        "a collection's name is 1 to 64 of a-z, 0-9, _ and -, and starts with a letter or digit");
  }
  return std::string(name);
}

absl::Status CheckDocumentId(std::string_view id, std::string_view field) {
  if (id.empty() || id.size() > retrieval::kMaxDocumentIdBytes) {
    return InvalidField(
        field, StrCat("must be 1 to ", retrieval::kMaxDocumentIdBytes, " bytes, got ", id.size()));
  }
  if (!IsValidUtf8(id) || HasControl(id)) {
    return InvalidField(field, "must be UTF-8 without control characters");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ReadPageSize(int page_size) {
  if (page_size == 0) return 100;
  if (page_size < 1 || page_size > retrieval::kMaxPageSize) {
    return InvalidField("page_size",
                        StrCat("must be 1 to ", retrieval::kMaxPageSize, ", got ", page_size));
  }
  return page_size;
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::StatusOr<retrieval::MetadataValue> ReadMetadataValue(const common::v1::MetadataValue& value,
                                                           std::string_view field) {
  switch (value.kind_case()) {
    case common::v1::MetadataValue::kStringValue:
      if (value.string_value().size() > kMaxStringBytes) {
        return InvalidField(field, StrCat("a string is at most ", kMaxStringBytes, " bytes, got ",
                                          value.string_value().size()));
      }
      if (!IsValidUtf8(value.string_value())) return InvalidField(field, "a string is UTF-8");
      return retrieval::MetadataValue(value.string_value());
    case common::v1::MetadataValue::kIntValue:
      return retrieval::MetadataValue(int64_t{value.int_value()});
    case common::v1::MetadataValue::kDoubleValue:
      if (!std::isfinite(value.double_value()))
        return InvalidField(field, "a number must be finite");
      return retrieval::MetadataValue(value.double_value());
    case common::v1::MetadataValue::kBoolValue:
      return retrieval::MetadataValue(value.bool_value());
    case common::v1::MetadataValue::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "a value is not set");
}

absl::StatusOr<retrieval::Metadata> ReadMetadata(const ProtoMetadata& metadata,
                                                 std::string_view field) {
  if (static_cast<int>(metadata.size()) > kMaxMetadataEntries) {
    return InvalidField(field,
                        StrCat("at most ", kMaxMetadataEntries, " entries, got ", metadata.size()));
  }
  retrieval::Metadata out;
  for (const auto& [key, item] : metadata) {
    CAIRN_RETURN_IF_ERROR(CheckKey(key, field));
    CAIRN_ASSIGN_OR_RETURN(auto value, ReadMetadataValue(item, field));
    out.emplace(key, std::move(value));
  }
  return out;
}

absl::StatusOr<retrieval::Filter> ReadFilter(const common::v1::Filter& filter,
                                             std::string_view field) {
  if (filter.conditions_size() > static_cast<int>(kMaxConditions)) {
    return InvalidField(StrCat(field, ".conditions"),
                        StrCat("at most ", kMaxConditions, ", got ", filter.conditions_size()));
  }
  retrieval::Filter out;
  for (int i = 0; i < filter.conditions_size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(
        auto condition, ReadCondition(filter.conditions(i), StrCat(field, ".conditions[", i, "]")));
    out.push_back(std::move(condition));
  }
  return out;
}

absl::StatusOr<retrieval::SearchQuery> ReadSearchRequest(const proto::SearchRequest& request,
                                                         const SearchDefaults& defaults) {
  retrieval::SearchQuery query;
  CAIRN_ASSIGN_OR_RETURN(query.collection, ReadCollection(request.collection()));
  if (IsBlank(request.query())) return InvalidField("query", "must not be blank");
  if (request.query().size() > retrieval::kMaxQueryBytes) {
    return InvalidField("query", StrCat("at most ", retrieval::kMaxQueryBytes, " bytes, got ",
                                        request.query().size()));
  }
  query.text = request.query();
  query.top_k = request.top_k() == 0 ? 10 : request.top_k();
  if (query.top_k < 1 || query.top_k > retrieval::kMaxTopK) {
    return InvalidField("top_k",
                        StrCat("must be 1 to ", retrieval::kMaxTopK, ", got ", request.top_k()));
  }
  query.candidates =
      request.candidates() == 0 ? std::max(defaults.candidates, query.top_k) : request.candidates();
  if (query.candidates < query.top_k || query.candidates > retrieval::kMaxCandidates) {
    return InvalidField("candidates",
                        StrCat("must be top_k (", query.top_k, ") to ", retrieval::kMaxCandidates,
                               ", got ", request.candidates()));
  }
  switch (request.mode()) {
    case proto::SEARCH_MODE_UNSPECIFIED:
    case proto::SEARCH_MODE_HYBRID:
      query.mode = retrieval::SearchMode::kHybrid;
      break;
    case proto::SEARCH_MODE_LEXICAL:
      query.mode = retrieval::SearchMode::kLexical;
      break;
    case proto::SEARCH_MODE_VECTOR:
      query.mode = retrieval::SearchMode::kVector;
      break;
    default:
      return InvalidField("mode", StrCat("unknown value ", static_cast<int>(request.mode())));
  }
  CAIRN_ASSIGN_OR_RETURN(query.filter, ReadFilter(request.filter()));
  query.fusion.vector_weight = defaults.vector_weight;
  if (request.fusion().has_convex() && request.fusion().convex().has_vector_weight()) {
    const double weight = request.fusion().convex().vector_weight();
    if (!(weight >= 0 && weight <= 1)) {
      return InvalidField("fusion.convex.vector_weight", StrCat("must be 0 to 1, got ", weight));
    }
    query.fusion.vector_weight = weight;
  } else if (request.fusion().has_rrf()) {
    const int k = request.fusion().rrf().k() == 0 ? 60 : request.fusion().rrf().k();
    if (k < 1 || k > 10'000)
      return InvalidField("fusion.rrf.k", StrCat("must be 1 to 10000, got ", k));
    query.fusion.kind = retrieval::FusionOptions::Kind::kRrf;
    query.fusion.rrf_k = k;
  }
  switch (request.rerank()) {
    case proto::RERANK_MODE_UNSPECIFIED:
      query.rerank.mode = retrieval::RerankMode::kAuto;
      break;
    case proto::RERANK_MODE_OFF:
      query.rerank.mode = retrieval::RerankMode::kOff;
      break;
    case proto::RERANK_MODE_ON:
      query.rerank.mode = retrieval::RerankMode::kOn;
      break;
    default:
      return InvalidField("rerank", StrCat("unknown value ", static_cast<int>(request.rerank())));
  }
  query.rerank.top = defaults.rerank_top;
  query.rerank.weight = defaults.rerank_weight;
  query.explain = request.explain();
  return query;
}

absl::StatusOr<retrieval::Chunk> ReadChunk(const proto::Chunk& in, std::string_view field) {
  retrieval::Chunk out;
  out.chunk_id = in.chunk_id();
  out.document_id = in.document_id();
  out.version = in.version();
  out.ordinal = in.ordinal();
  out.text = in.text();
  CAIRN_ASSIGN_OR_RETURN(out.span, ReadSpan(in.span(), StrCat(field, ".span")));
  CAIRN_ASSIGN_OR_RETURN(out.parent_span,
                         ReadSpan(in.parent_span(), StrCat(field, ".parent_span")));
  if (in.runs().empty()) {
    out.source_map = retrieval::SourceMap::Identity(out.span.begin, out.text.size());
  } else {
    std::vector<retrieval::SourceRun> runs;
    runs.reserve(in.runs_size());
    for (const auto& run : in.runs()) {
      runs.push_back({run.text_begin(), run.text_size(), run.source_begin(), run.source_size()});
    }
    out.source_map = retrieval::SourceMap(std::move(runs));
  }
  out.heading_path.assign(in.heading_path().begin(), in.heading_path().end());
  out.parent_id = in.parent_id();
  out.token_count = in.token_count();
  out.language = in.language();
  return out;
}

absl::StatusOr<retrieval::DocumentInfo> ReadDocument(const proto::Document& in,
                                                     std::string_view field) {
  retrieval::DocumentInfo out;
  CAIRN_RETURN_IF_ERROR(CheckDocumentId(in.document_id(), StrCat(field, ".document_id")));
  out.document_id = in.document_id();
  CAIRN_ASSIGN_OR_RETURN(out.collection,
                         ReadCollection(in.collection(), StrCat(field, ".collection")));
  out.version = in.version();
  out.content_sha256 = in.sha256();
  out.media_type = in.media_type();
  out.encoding = in.encoding();
  out.title = in.title();
  CAIRN_ASSIGN_OR_RETURN(out.metadata, ReadMetadata(in.metadata(), StrCat(field, ".metadata")));
  out.source_bytes = in.source_bytes();
  out.num_chunks = in.num_chunks();
  out.chunk_tokens = in.chunk_tokens();
  out.committed_at = ReadTime(in.committed_at());
  return out;
}

void WriteMetadata(const retrieval::Metadata& metadata, ProtoMetadata* out) {
  for (const auto& [key, value] : metadata) {
    auto& item = (*out)[key];
    if (const auto* text = std::get_if<std::string>(&value)) item.set_string_value(*text);
    if (const auto* number = std::get_if<int64_t>(&value)) item.set_int_value(*number);
    if (const auto* real = std::get_if<double>(&value)) item.set_double_value(*real);
    if (const auto* flag = std::get_if<bool>(&value)) item.set_bool_value(*flag);
  }
}

bool TextIsSource(const retrieval::Chunk& chunk) {
  const auto& runs = chunk.source_map.runs();
  return chunk.text.size() == chunk.span.size() && runs.size() == 1 && runs[0].text_begin == 0 &&
         runs[0].text_size == chunk.text.size() && runs[0].source_begin == chunk.span.begin &&
         runs[0].source_size == runs[0].text_size;
}

void WriteChunk(const retrieval::Chunk& chunk, proto::Chunk* out) {
  out->set_chunk_id(chunk.chunk_id);
  out->set_document_id(chunk.document_id);
  out->set_version(chunk.version);
  out->set_ordinal(chunk.ordinal);
  out->set_text(chunk.text);
  WriteSpan(chunk.span, out->mutable_span());
  for (const std::string& heading : chunk.heading_path) out->add_heading_path(heading);
  out->set_parent_id(chunk.parent_id);
  WriteSpan(chunk.parent_span, out->mutable_parent_span());
  out->set_token_count(chunk.token_count);
  out->set_language(chunk.language);
  if (TextIsSource(chunk)) return;
  for (const auto& run : chunk.source_map.runs()) {
    auto* item = out->add_runs();
    item->set_text_begin(run.text_begin);
    item->set_text_size(run.text_size);
    item->set_source_begin(run.source_begin);
    item->set_source_size(run.source_size);
  }
}

void WriteDocument(const retrieval::DocumentInfo& info, proto::Document* out) {
  out->set_document_id(info.document_id);
  out->set_collection(info.collection);
  out->set_version(info.version);
  out->set_sha256(info.content_sha256);
  out->set_media_type(info.media_type);
  out->set_encoding(info.encoding);
  out->set_title(info.title);
  WriteMetadata(info.metadata, out->mutable_metadata());
  out->set_source_bytes(info.source_bytes);
  out->set_num_chunks(info.num_chunks);
  out->set_chunk_tokens(info.chunk_tokens);
  WriteTime(info.committed_at, out->mutable_committed_at());
}

void WriteCollection(const retrieval::CollectionInfo& info, proto::Collection* out) {
  out->set_name(info.config.name);
  out->set_embedder(info.config.embedder.model);
  out->set_embedder_fingerprint(info.config.embedder.fingerprint);
  out->set_dimension(info.config.embedder.dimension);
  out->set_num_documents(info.num_documents);
  out->set_num_chunks(info.num_chunks);
}

void WriteSearchResult(const retrieval::SearchQuery& query, const retrieval::SearchResult& result,
                       proto::SearchResponse* out) {
  for (const auto& hit : result.hits) {
    auto* item = out->add_hits();
    WriteChunk(hit.chunk, item->mutable_chunk());
    item->mutable_chunk()->set_title(hit.document.title);
    item->set_score(hit.score);
    auto* signals = item->mutable_signals();
    if (hit.details.lexical) {
      signals->set_bm25(hit.details.lexical->score);
      signals->set_bm25_rank(hit.details.lexical->rank);
    }
    if (hit.details.vector) {
      signals->set_cosine(hit.details.vector->score);
      signals->set_cosine_rank(hit.details.vector->rank);
    }
    signals->set_fused(hit.details.fused);
    if (hit.details.rerank_logit) signals->set_rerank_logit(*hit.details.rerank_logit);
    if (query.explain) *item->mutable_explanation() = Explain(query, result, hit);
  }
  const auto& timings = result.timings;
  WriteTiming("analyze", timings.analyze, out);
  WriteTiming("lexical", timings.lexical, out);
  WriteTiming("embed_query", timings.embed, out);
  WriteTiming("vector", timings.vector, out);
  WriteTiming("fusion", timings.fuse, out);
  WriteTiming("rerank", timings.rerank, out);
  WriteTiming("fetch", timings.fetch, out);
  WriteTiming("total", timings.total, out);
  for (const auto& degradation : result.degraded) {
    out->add_degraded(
        StrCat(degradation.stage, ": ", degradation.reason, ": ", degradation.message));
  }
  out->set_score_kind(ReadableKind(query, result));
  for (const std::string& word : result.question_words) out->add_ignored_words(word);
}

void WriteTime(absl::Time time, google::protobuf::Timestamp* out) {
  const int64_t ns = absl::ToUnixNanos(time);
  int64_t seconds = ns / 1'000'000'000, rest = ns % 1'000'000'000;
  if (rest < 0) --seconds, rest += 1'000'000'000;
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(rest));
}

void WriteDuration(absl::Duration duration, google::protobuf::Duration* out) {
  const int64_t ns = absl::ToInt64Nanoseconds(duration);
  out->set_seconds(ns / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(ns % 1'000'000'000));
}

absl::Time ReadTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

}  // namespace cairn::services
