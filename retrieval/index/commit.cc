// How the index changes: one batch to the store, then one new state.
#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "common/strings.h"
#include "retrieval/index/document_check.h"
#include "retrieval/index/index_impl.h"
#include "retrieval/index/searcher.h"
#include "retrieval/vector/flat_scan.h"

namespace cairn::retrieval {
namespace {

// The fields whose change makes a new version.
bool SameContent(const DocumentInfo& a, const DocumentInfo& b) {
  return a.content_sha256 == b.content_sha256 && a.metadata == b.metadata && a.title == b.title &&
         a.media_type == b.media_type && a.encoding == b.encoding &&
         a.chunk_tokens == b.chunk_tokens;
}

absl::Status CheckVectors(const CollectionRecord& record, const DocumentVersion& document) {
  const size_t wanted = document.chunks.size() * record.dimension;
  if (document.vectors.size() != wanted) {
    return InvalidField(
        "vectors", StrCat(document.chunks.size(), " chunks of ", record.dimension,
                          " dimensions need ", wanted, " values, not ", document.vectors.size()));
  }
  if (record.dimension > 0 && document.embedder_fingerprint != record.fingerprint) {
    return WithReason(absl::FailedPreconditionError(StrCat(
                          "collection \"", record.name, "\" holds vectors of ", record.fingerprint,
                          " (", record.model, "), the document has vectors of \"",
                          document.embedder_fingerprint, "\"")),
                      "EMBEDDER_MISMATCH");
  }
  return absl::OkStatus();
}

}  // namespace

// All that can be done without knowing what else is going on.
struct IndexImpl::PreparedDocument {
  uint32_t collection = 0;
  TermsRecord terms;
  std::vector<float> vectors;
  std::vector<std::string> chunk_records;
};

void IndexImpl::Publish(std::map<std::string, CollectionPtr, std::less<>> collections) {
  auto next = std::make_shared<State>();
  next->collections = std::move(collections);
  next->snapshot = store_->TakeSnapshot();
  StatePtr last;  // dies after the lock: it may be the last owner of large segments
  const std::lock_guard lock(state_mutex_);
  last = std::exchange(state_, std::move(next));
}

absl::StatusOr<CollectionInfo> IndexImpl::CreateCollection(const CollectionConfig& config) {
  CAIRN_RETURN_IF_ERROR(CheckCollectionName(config.name));
  const EmbedderInfo& embedder = config.embedder;
  if (embedder.dimension < 0 || embedder.dimension > kMaxDimension) {
    return InvalidField("embedder.dimension",
                        StrCat("must be 0 to ", kMaxDimension, ", not ", embedder.dimension));
  }
  if (embedder.dimension > 0 && embedder.fingerprint.empty()) {
    return InvalidField("embedder.fingerprint", "is empty");
  }
  {
    const std::lock_guard lock(writer_mutex_);
    const StatePtr state = CurrentState();
    if (state->collections.contains(config.name)) {
      return WithReason(absl::AlreadyExistsError(StrCat("collection \"", config.name, "\" exists")),
                        "COLLECTION_EXISTS");
    }
    auto record = std::make_shared<CollectionRecord>();
    record->id = next_collection_id_;
    record->name = config.name;
    record->model = embedder.model;
    record->fingerprint = embedder.fingerprint;
    record->dimension = static_cast<uint32_t>(embedder.dimension);
    record->analyzer_fingerprint = analyzer_->fingerprint();
    record->created_at = absl::Now();
    Store::Batch batch;
    batch.Put(Table::kCollections, record->name, EncodeCollection(*record));
    CAIRN_RETURN_IF_ERROR(store_->Write(batch, options_.sync));
    ++next_collection_id_;
    auto collections = state->collections;
    auto collection = std::make_shared<CollectionState>();
    collection->record = std::move(record);
    collections.emplace(config.name, std::move(collection));
    Publish(std::move(collections));
  }
  return GetCollection(config.name);
}

absl::Status IndexImpl::DeleteCollection(std::string_view name) {
  const std::lock_guard lock(writer_mutex_);
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, name));
  const std::string prefix = CollectionPrefix(collection->record->id);
  Store::Batch batch;
  batch.Delete(Table::kCollections, name);
  for (const Table table : {Table::kDocuments, Table::kDeleted, Table::kSources, Table::kChunks,
                            Table::kChunkIds, Table::kTerms, Table::kVectors}) {
    batch.DeletePrefix(table, prefix);
  }
  CAIRN_RETURN_IF_ERROR(store_->Write(batch, options_.sync));
  auto collections = state->collections;
  collections.erase(collections.find(name));
  Publish(std::move(collections));
  return absl::OkStatus();
}

absl::StatusOr<DocumentInfo> IndexImpl::Commit(const RequestContext& context,
                                               const DocumentVersion& document) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  CAIRN_RETURN_IF_ERROR(CheckDocument(document));
  PreparedDocument prepared;
  {
    const StatePtr state = CurrentState();
    CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection,
                           FindCollection(*state, document.info.collection));
    const CollectionRecord& record = *collection->record;
    CAIRN_RETURN_IF_ERROR(CheckVectors(record, document));
    const absl::StatusOr<DocumentRecord> old =
        FindDocument(*state, *collection, document.info.document_id);
    if (old.ok() && SameContent(old->info, document.info)) return old->info;
    if (!old.ok() && !absl::IsNotFound(old.status())) return old.status();
    prepared.collection = record.id;
    prepared.vectors = document.vectors;
    const absl::Status status = NormalizeRows(prepared.vectors, record.dimension);
    if (!status.ok()) return InvalidField("vectors", ToStd(status.message()));
  }
  std::vector<std::vector<std::string_view>> texts;
  for (const Chunk& chunk : document.chunks) {
    texts.push_back(IndexedTexts(document.info.title, chunk));
    prepared.terms.chunks.push_back({chunk.chunk_id, chunk.language});
    prepared.chunk_records.push_back(EncodeChunk(chunk));
  }
  prepared.terms.terms = AnalyzeDocument(*analyzer_, texts);
  CAIRN_RETURN_IF_ERROR(context.Check());
  const std::lock_guard lock(writer_mutex_);
  return CommitPrepared(document, std::move(prepared));
}

absl::StatusOr<DocumentInfo> IndexImpl::CommitPrepared(const DocumentVersion& document,
                                                       PreparedDocument prepared) {
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection,
                         FindCollection(*state, document.info.collection));
  const uint32_t id = collection->record->id;
  if (id != prepared.collection) {
    return absl::AbortedError(
        StrCat("collection \"", collection->record->name, "\" was replaced meanwhile"));
  }
  Store::Batch batch;
  std::vector<std::string> old_chunk_ids;
  uint64_t last_version = 0;
  const absl::StatusOr<DocumentRecord> old =
      FindDocument(*state, *collection, document.info.document_id);
  if (old.ok()) {
    if (SameContent(old->info, document.info)) return old->info;
    CAIRN_RETURN_IF_ERROR(RetireVersion(*state, id, *old, &batch, &old_chunk_ids));
    last_version = old->info.version;
  } else if (absl::IsNotFound(old.status())) {
    const std::string key = DocumentKey(id, document.info.document_id);
    const absl::StatusOr<std::string> deleted = store_->Get(*state->snapshot, Table::kDeleted, key);
    if (deleted.ok()) {
      if (!DecodeDeleted(*deleted, &last_version))
        return absl::DataLossError("a deleted document's record is broken");
      batch.Delete(Table::kDeleted, key);
    } else if (!absl::IsNotFound(deleted.status())) {
      return deleted.status();
    }
  } else {
    return old.status();
  }
  std::sort(old_chunk_ids.begin(), old_chunk_ids.end());
  for (const Chunk& chunk : document.chunks) {
    if (std::binary_search(old_chunk_ids.begin(), old_chunk_ids.end(), chunk.chunk_id)) continue;
    const absl::StatusOr<std::string> taken =
        store_->Get(*state->snapshot, Table::kChunkIds, ChunkIdKey(id, chunk.chunk_id));
    if (taken.ok()) {
      return InvalidField("chunk_id",
                          StrCat("\"", chunk.chunk_id, "\" belongs to another document"));
    }
    if (!absl::IsNotFound(taken.status())) return taken.status();
  }

  DocumentRecord record;
  record.uid = next_uid_;
  record.info = document.info;
  record.info.version = last_version + 1;
  record.info.source_bytes = document.source.size();
  record.info.num_chunks = static_cast<uint32_t>(document.chunks.size());
  record.info.committed_at = absl::FromUnixMicros(absl::ToUnixMicros(absl::Now()));

  batch.Put(Table::kDocuments, DocumentKey(id, record.info.document_id), EncodeDocument(record));
  for (uint64_t at = 0, block = 0; at < document.source.size(); at += kSourceBlockBytes, ++block) {
    batch.Put(Table::kSources, SourceKey(id, record.uid, static_cast<uint32_t>(block)),
              std::string_view(document.source).substr(at, kSourceBlockBytes));
  }
  for (uint32_t i = 0; i < record.info.num_chunks; ++i) {
    batch.Put(Table::kChunks, ChunkKey(id, record.uid, i), prepared.chunk_records[i]);
    batch.Put(Table::kChunkIds, ChunkIdKey(id, document.chunks[i].chunk_id),
              EncodeChunkAddress({record.uid, i}));
  }
  batch.Put(Table::kTerms, VersionKey(id, record.uid), EncodeTerms(prepared.terms));
  if (collection->record->dimension > 0) {
    batch.Put(Table::kVectors, VersionKey(id, record.uid), EncodeVectors(prepared.vectors));
  }
  CAIRN_RETURN_IF_ERROR(store_->Write(batch, options_.sync));
  ++next_uid_;

  auto next = std::make_shared<CollectionState>(*collection);
  if (old.ok()) {
    next->Remove(old->uid);
    next->source_bytes -= old->info.source_bytes;
  } else {
    ++next->num_documents;
  }
  next->source_bytes += record.info.source_bytes;
  SegmentBuilder builder;
  builder.Add(record.uid, std::make_shared<const DocumentInfo>(record.info),
              std::move(prepared.terms), prepared.vectors);
  next->Append(builder.Build());
  auto collections = state->collections;
  collections[record.info.collection] = std::move(next);
  Publish(std::move(collections));
  return std::move(record.info);
}

absl::StatusOr<int> IndexImpl::Delete(const RequestContext& context,
                                      std::string_view collection_name,
                                      std::string_view document_id) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  const std::lock_guard lock(writer_mutex_);
  const StatePtr state = CurrentState();
  CAIRN_ASSIGN_OR_RETURN(const CollectionPtr collection, FindCollection(*state, collection_name));
  const absl::StatusOr<DocumentRecord> old = FindDocument(*state, *collection, document_id);
  if (absl::IsNotFound(old.status())) return 0;
  if (!old.ok()) return old.status();
  Store::Batch batch;
  std::vector<std::string> chunk_ids;
  CAIRN_RETURN_IF_ERROR(RetireVersion(*state, collection->record->id, *old, &batch, &chunk_ids));
  batch.Put(Table::kDeleted, DocumentKey(collection->record->id, document_id),
            EncodeDeleted(old->info.version));
  CAIRN_RETURN_IF_ERROR(store_->Write(batch, options_.sync));
  auto next = std::make_shared<CollectionState>(*collection);
  next->Remove(old->uid);
  --next->num_documents;
  next->source_bytes -= old->info.source_bytes;
  auto collections = state->collections;
  collections.find(collection_name)->second = std::move(next);
  Publish(std::move(collections));
  return 1;
}

absl::Status IndexImpl::RetireVersion(const State& state, uint32_t collection,
                                      const DocumentRecord& record, Store::Batch* batch,
                                      std::vector<std::string>* chunk_ids) const {
  const std::string version = VersionKey(collection, record.uid);
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes,
                         store_->Get(*state.snapshot, Table::kTerms, version));
  TermsRecord terms;
  if (!DecodeTerms(bytes, &terms) || terms.chunks.size() != record.info.num_chunks) {
    return absl::DataLossError(
        StrCat("the terms of document \"", record.info.document_id, "\" are broken"));
  }
  batch->Delete(Table::kDocuments, DocumentKey(collection, record.info.document_id));
  batch->Delete(Table::kTerms, version);
  batch->Delete(Table::kVectors, version);
  for (uint64_t at = 0, block = 0; at < record.info.source_bytes;
       at += kSourceBlockBytes, ++block) {
    batch->Delete(Table::kSources, SourceKey(collection, record.uid, static_cast<uint32_t>(block)));
  }
  for (uint32_t i = 0; i < record.info.num_chunks; ++i) {
    batch->Delete(Table::kChunks, ChunkKey(collection, record.uid, i));
    batch->Delete(Table::kChunkIds, ChunkIdKey(collection, terms.chunks[i].chunk_id));
    chunk_ids->push_back(std::move(terms.chunks[i].chunk_id));
  }
  return absl::OkStatus();
}

}  // namespace cairn::retrieval
