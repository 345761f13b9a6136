#include "retrieval/index/index.h"

#include <algorithm>

#include "common/strings.h"
#include "retrieval/index/document_check.h"
#include "retrieval/index/index_impl.h"
#include "retrieval/index/searcher.h"
#include "retrieval/query/filter.h"
#include "retrieval/query/validate.h"

namespace cairn::retrieval {
namespace {

CollectionInfo InfoOf(const CollectionState& state) {
  const CollectionRecord& record = *state.record;
  CollectionInfo info;
  info.config.name = record.name;
  info.config.embedder.model = record.model;
  info.config.embedder.fingerprint = record.fingerprint;
  info.config.embedder.dimension = static_cast<int>(record.dimension);
  info.analyzer_fingerprint = record.analyzer_fingerprint;
  info.created_at = record.created_at;
  info.num_documents = state.num_documents;
  info.num_chunks = state.num_chunks();
  info.source_bytes = state.source_bytes;
  return info;
}

}  // namespace

absl::Status CollectionNotFound(std::string_view name) {
  return WithReason(absl::NotFoundError(StrCat("no collection \"", name, "\"")),
                    "COLLECTION_NOT_FOUND");
}
absl::Status DocumentNotFound(std::string_view document_id) {
  return WithReason(absl::NotFoundError(StrCat("no document \"", document_id, "\"")),
                    "DOCUMENT_NOT_FOUND");
}

absl::StatusOr<std::unique_ptr<Index>> Index::Open(const std::string& dir,
                                                   const IndexOptions& options) {
  auto index = std::make_unique<IndexImpl>(options);
  CAIRN_RETURN_IF_ERROR(Annotate(index->Load(dir), StrCat("index in ", dir)));
  return index;
}

IndexImpl::StatePtr IndexImpl::CurrentState() {
  const std::lock_guard lock(state_mutex_);
  return state_;
}

absl::StatusOr<IndexImpl::CollectionPtr> IndexImpl::FindCollection(const State& state,
                                                                   std::string_view name) {
  CAIRN_RETURN_IF_ERROR(CheckCollectionName(name));
  const auto found = state.collections.find(name);
  if (found == state.collections.end()) return CollectionNotFound(name);
  return found->second;
}

absl::StatusOr<DocumentRecord> IndexImpl::FindDocument(const State& state,
                                                       const CollectionState& collection,
                                                       std::string_view document_id) const {
  CAIRN_RETURN_IF_ERROR(CheckDocumentId(document_id));
  const absl::StatusOr<std::string> bytes = store_->Get(
      *state.snapshot, Table::kDocuments, DocumentKey(collection.record->id, document_id));
  if (absl::IsNotFound(bytes.status())) return DocumentNotFound(document_id);
  if (!bytes.ok()) return bytes.status();
  DocumentRecord record;
  if (!DecodeDocument(collection.record->name, document_id, *bytes, &record)) {
    return absl::DataLossError(StrCat("the record of document \"", document_id, "\" is broken"));
  }
  return record;
}

absl::StatusOr<CollectionInfo> IndexImpl::GetCollection(std::string_view name) {
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*CurrentState(), name));
  return InfoOf(*collection);
}

std::vector<CollectionInfo> IndexImpl::ListCollections() {
  std::vector<CollectionInfo> out;
  const StatePtr state = CurrentState();  // a commit may replace it meanwhile
  for (const auto& [name, collection] : state->collections) out.push_back(InfoOf(*collection));
  return out;
}

absl::StatusOr<bool> IndexImpl::KeepsVectors(const RequestContext& context,
                                             std::string_view collection_name) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  const absl::StatusOr<CollectionPtr> collection = FindCollection(*CurrentState(), collection_name);
  if (absl::IsNotFound(collection.status())) return true;
  if (!collection.ok()) return collection.status();
  return (*collection)->record->dimension > 0;
}

absl::StatusOr<DocumentInfo> IndexImpl::Find(const RequestContext& context,
                                             std::string_view collection_name,
                                             std::string_view document_id) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, collection_name));
  CAIRN_ASSIGN_OR_RETURN(DocumentRecord record, FindDocument(*state, *collection, document_id));
  return std::move(record.info);
}

absl::StatusOr<DocumentPage> IndexImpl::ListDocuments(const RequestContext& context,
                                                      std::string_view collection_name,
                                                      std::string_view page_token, int page_size,
                                                      const Filter& filter) {
  if (page_size < 1 || page_size > kMaxPageSize) {
    return InvalidField("page_size", StrCat("must be 1 to ", kMaxPageSize, ", not ", page_size));
  }
  if (!page_token.empty() && !CheckDocumentId(page_token).ok())
    return InvalidField("page_token", "is not ours");
  CAIRN_RETURN_IF_ERROR(ValidateFilter(filter));
  if (HasLanguageCondition(filter)) {
    return InvalidField("filter",
                        "\"language\" belongs to chunks: it filters searches, not documents");
  }
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, collection_name));
  const std::string prefix = CollectionPrefix(collection->record->id);
  const std::string after =
      page_token.empty() ? "" : StrCat(prefix, page_token);  // the token: the last id given
  DocumentPage page;
  CAIRN_RETURN_IF_ERROR(
      store_->Scan(*state->snapshot, Table::kDocuments, prefix, after,
                   [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                     CAIRN_RETURN_IF_ERROR(context.Check());
                     DocumentRecord record;
                     const std::string_view document_id = key.substr(prefix.size());
                     if (!DecodeDocument(collection->record->name, document_id, value, &record)) {
                       return absl::DataLossError(
                           StrCat("the record of document \"", document_id, "\" is broken"));
                     }
                     if (!MatchesDocument(filter, record.info)) return true;
                     if (page.documents.size() == static_cast<size_t>(page_size)) {
                       page.next_page_token = page.documents.back().document_id;
                       return false;
                     }
                     page.documents.push_back(std::move(record.info));
                     return true;
                   }));
  return page;
}

absl::StatusOr<std::string> IndexImpl::ReadSource(const RequestContext& context,
                                                  std::string_view collection_name,
                                                  std::string_view document_id, uint64_t version,
                                                  Span span) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, collection_name));
  CAIRN_ASSIGN_OR_RETURN(const DocumentRecord record,
                         FindDocument(*state, *collection, document_id));
  if (version != 0 && version != record.info.version) {
    return WithReason(absl::NotFoundError(StrCat("document \"", document_id, "\" is at version ",
                                                 record.info.version, ", not ", version)),
                      "VERSION_RETIRED");
  }
  if (span.begin > span.end || span.end > record.info.source_bytes) {
    return InvalidField("span", StrCat("[", span.begin, ", ", span.end, ") is not inside ",
                                       record.info.source_bytes, " bytes"));
  }
  return ReadSourceBytes(*state, collection->record->id, record, span);
}

absl::StatusOr<std::string> IndexImpl::ReadSourceBytes(const State& state, uint32_t collection,
                                                       const DocumentRecord& record,
                                                       Span span) const {
  std::string out;
  out.reserve(span.size());
  for (uint64_t at = span.begin; at < span.end;) {
    const uint64_t block = at / kSourceBlockBytes, offset = at % kSourceBlockBytes;
    const uint64_t size = std::min(kSourceBlockBytes - offset, span.end - at);
    CAIRN_ASSIGN_OR_RETURN(
        const std::string bytes,
        store_->Get(*state.snapshot, Table::kSources,
                    SourceKey(collection, record.uid, static_cast<uint32_t>(block))));
    if (bytes.size() < offset + size) return absl::DataLossError("a source block is short");
    out.append(bytes, offset, size);
    at += size;
  }
  return out;
}

absl::StatusOr<Chunk> IndexImpl::ReadChunk(const State& state, uint32_t collection, uint64_t uid,
                                           uint32_t ordinal, const DocumentInfo& info) const {
  const absl::StatusOr<std::string> bytes =
      store_->Get(*state.snapshot, Table::kChunks, ChunkKey(collection, uid, ordinal));
  Chunk chunk;
  if (absl::IsNotFound(bytes.status()) || (bytes.ok() && !DecodeChunk(*bytes, &chunk))) {
    return absl::DataLossError(
        StrCat("chunk ", ordinal, " of document \"", info.document_id, "\" is missing or broken"));
  }
  if (!bytes.ok()) return bytes.status();
  chunk.document_id = info.document_id;
  chunk.version = info.version;
  return chunk;
}

absl::StatusOr<Chunk> IndexImpl::GetChunk(const RequestContext& context,
                                          std::string_view collection_name,
                                          std::string_view chunk_id) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, collection_name));
  const uint32_t id = collection->record->id;
  const absl::StatusOr<std::string> bytes =
      store_->Get(*state->snapshot, Table::kChunkIds, ChunkIdKey(id, chunk_id));
  if (absl::IsNotFound(bytes.status())) {
    return WithReason(absl::NotFoundError(StrCat("no chunk \"", chunk_id, "\"")),
                      "CHUNK_NOT_FOUND");
  }
  if (!bytes.ok()) return bytes.status();
  ChunkAddress address;
  const Segment::Document* document = nullptr;
  if (DecodeChunkAddress(*bytes, &address)) {
    for (const SegmentView& view : collection->segments) {
      document = view.segment->Find(address.uid);
      if (document != nullptr) break;
    }
  }
  if (document == nullptr)
    return absl::DataLossError(StrCat("chunk \"", chunk_id, "\" has no document"));
  return ReadChunk(*state, id, address.uid, address.ordinal, *document->info);
}

absl::StatusOr<std::vector<Chunk>> IndexImpl::GetChunks(const RequestContext& context,
                                                        std::string_view collection_name,
                                                        std::string_view document_id) {
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, collection_name));
  CAIRN_ASSIGN_OR_RETURN(const DocumentRecord record,
                         FindDocument(*state, *collection, document_id));
  std::vector<Chunk> chunks;
  for (uint32_t i = 0; i < record.info.num_chunks; ++i) {
    CAIRN_RETURN_IF_ERROR(context.Check());
    CAIRN_ASSIGN_OR_RETURN(Chunk chunk,
                           ReadChunk(*state, collection->record->id, record.uid, i, record.info));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

absl::StatusOr<SearchResult> IndexImpl::Search(const RequestContext& context,
                                               const SearchQuery& query, Embedder* embedder,
                                               Reranker* reranker) {
  CAIRN_RETURN_IF_ERROR(ValidateQuery(query));
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, query.collection));
  num_searches_.fetch_add(1, std::memory_order_relaxed);
  Searcher searcher(context, query, *collection, *analyzer_,
                    [&](uint64_t uid, uint32_t ordinal, const DocumentInfo& info) {
                      return ReadChunk(*state, collection->record->id, uid, ordinal, info);
                    });
  absl::StatusOr<SearchResult> result = searcher.Run(embedder, reranker);
  if (!result.ok()) return result;
  for (const Degradation& degradation : result->degraded) {
    std::atomic<uint64_t>& counter =
        degradation.stage == "vector" ? num_degraded_vector_ : num_degraded_rerank_;
    counter.fetch_add(1, std::memory_order_relaxed);
  }
  return result;
}

IndexStats IndexImpl::Stats() {
  IndexStats stats;
  const StatePtr state = CurrentState();
  for (const auto& [name, collection] : state->collections) {
    stats.num_documents += collection->num_documents;
    stats.num_chunks += collection->num_chunks();
    for (const SegmentView& view : collection->segments) {
      ++stats.num_segments;
      stats.num_deleted_chunks += view.segment->num_chunks() - view.live_chunks;
      stats.num_postings += view.segment->lexical->num_postings();
      stats.memory_bytes += view.segment->MemoryBytes();
    }
  }
  stats.num_searches = num_searches_.load(std::memory_order_relaxed);
  stats.num_degraded_vector = num_degraded_vector_.load(std::memory_order_relaxed);
  stats.num_degraded_rerank = num_degraded_rerank_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace cairn::retrieval
