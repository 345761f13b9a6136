// Opening a directory: format, ownership, and the memory part rebuilt from the store.
#include <filesystem>
#include <unordered_map>

#include "common/log.h"
#include "common/strings.h"
#include "retrieval/index/index_impl.h"
#include "retrieval/index/searcher.h"

namespace cairn::retrieval {
namespace {

// docs/formats/index.md
constexpr std::string_view kFormatFile = "FORMAT";
constexpr std::string_view kFormatLine = "cairn-index 1\n";
constexpr std::string_view kStoreDirectory = "store";

// Segments made by Load hold about this many chunks, so that building one never needs much more
// memory than it.
constexpr uint32_t kChunksPerLoadedSegment = 1 << 17;

absl::Status FormatUnknown(std::string_view message) {
  return WithReason(absl::FailedPreconditionError(ToAbsl(message)), "FORMAT_UNKNOWN");
}

absl::Status Broken(std::string_view what, uint64_t uid) {
  return absl::DataLossError(StrCat(what, " of document version ", uid, " is missing or broken"));
}

}  // namespace

absl::Status IndexImpl::CheckFormat(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return absl::InternalError(StrCat("cannot create ", dir, ": ", error.message()));
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = DirectoryLock::Acquire(dir);
  if (absl::IsFailedPrecondition(lock.status()))
    return WithReason(lock.status(), "DATA_DIRECTORY_IN_USE");
  if (!lock.ok()) return lock.status();
  directory_lock_ = std::move(*lock);

  const std::string path = StrCat(dir, "/", kFormatFile);
  const absl::StatusOr<std::string> format = ReadFile(path, 4096);
  if (absl::IsNotFound(format.status())) {
    if (std::filesystem::exists(StrCat(dir, "/", kStoreDirectory), error)) {
      return FormatUnknown(StrCat("there is a store but no ", kFormatFile, " file"));
    }
    return WriteFileAtomic(path, kFormatLine);
  }
  if (!format.ok()) return format.status();
  if (*format != kFormatLine) {
    return FormatUnknown(
        StrCat(kFormatFile, " says \"", std::string_view(*format).substr(0, format->find('\n')),
               "\"; this program reads \"", kFormatLine.substr(0, kFormatLine.size() - 1), "\""));
  }
  return absl::OkStatus();
}

absl::Status IndexImpl::Load(const std::string& dir) {
  CAIRN_RETURN_IF_ERROR(CheckFormat(dir));
  CAIRN_ASSIGN_OR_RETURN(analyzer_, Analyzer::Create());
  CAIRN_ASSIGN_OR_RETURN(
      store_, Store::Open(StrCat(dir, "/", kStoreDirectory), options_.block_cache_bytes));

  std::vector<CollectionRecord> records;
  CAIRN_RETURN_IF_ERROR(store_->Scan(
      *store_->TakeSnapshot(), Table::kCollections, "", "",
      [&](std::string_view name, std::string_view value) -> absl::StatusOr<bool> {
        if (!DecodeCollection(name, value, &records.emplace_back())) {
          return absl::DataLossError(StrCat("the record of collection \"", name, "\" is broken"));
        }
        return true;
      }));
  for (CollectionRecord& record : records) {
    if (record.analyzer_fingerprint != analyzer_->fingerprint()) {
      CAIRN_RETURN_IF_ERROR(
          Annotate(Reanalyze(&record), StrCat("collection \"", record.name, "\"")));
    }
  }
  State state;
  state.snapshot = store_->TakeSnapshot();
  for (const CollectionRecord& record : records) {
    next_collection_id_ = std::max(next_collection_id_, record.id + 1);
    absl::StatusOr<CollectionPtr> collection =
        LoadCollection(state, std::make_shared<const CollectionRecord>(record));
    if (!collection.ok())
      return Annotate(collection.status(), StrCat("collection \"", record.name, "\""));
    state.collections.emplace(record.name, std::move(*collection));
  }
  state_ = std::make_shared<const State>(std::move(state));
  return absl::OkStatus();
}

absl::StatusOr<IndexImpl::CollectionPtr> IndexImpl::LoadCollection(
    const State& state, std::shared_ptr<const CollectionRecord> record) {
  auto out = std::make_shared<CollectionState>();
  out->record = record;
  const std::string prefix = CollectionPrefix(record->id);
  std::unordered_map<uint64_t, std::shared_ptr<const DocumentInfo>> documents;
  CAIRN_RETURN_IF_ERROR(store_->Scan(
      *state.snapshot, Table::kDocuments, prefix, "",
      [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
        DocumentRecord document;
        const std::string_view document_id = key.substr(prefix.size());
        if (!DecodeDocument(record->name, document_id, value, &document)) {
          return absl::DataLossError(
              StrCat("the record of document \"", document_id, "\" is broken"));
        }
        next_uid_ = std::max(next_uid_, document.uid + 1);
        ++out->num_documents;
        out->source_bytes += document.info.source_bytes;
        documents.emplace(document.uid,
                          std::make_shared<const DocumentInfo>(std::move(document.info)));
        return true;
      }));

  SegmentBuilder builder;
  size_t num_loaded = 0;
  CAIRN_RETURN_IF_ERROR(store_->Scan(
      *state.snapshot, Table::kTerms, prefix, "",
      [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
        uint64_t uid = 0;
        TermsRecord terms;
        if (!ParseUid(key, &uid) || !DecodeTerms(value, &terms))
          return Broken("the terms record", uid);
        const auto document = documents.find(uid);
        if (document == documents.end() || document->second->num_chunks != terms.chunks.size()) {
          return Broken("the document record", uid);
        }
        std::vector<float> vectors;
        if (record->dimension > 0) {
          const absl::StatusOr<std::string> bytes =
              store_->Get(*state.snapshot, Table::kVectors, key);
          if (!bytes.ok() && !absl::IsNotFound(bytes.status())) return bytes.status();
          if (!bytes.ok() || !DecodeVectors(*bytes, &vectors) ||
              vectors.size() != terms.chunks.size() * record->dimension) {
            return Broken("the vectors record", uid);
          }
        }
        ++num_loaded;
        if (terms.chunks.empty()) return true;
        builder.Add(uid, document->second, std::move(terms), vectors);
        if (builder.num_chunks() >= kChunksPerLoadedSegment)
          out->segments.push_back(ViewOf(builder.Build()));
        return true;
      }));
  if (num_loaded != documents.size()) {
    return absl::DataLossError(
        StrCat(documents.size() - num_loaded, " documents have no terms record"));
  }
  if (builder.num_chunks() > 0) out->segments.push_back(ViewOf(builder.Build()));
  return out;
}

// The analyser changed since the terms were written (another ICU, other rules): writes them anew
// from the chunks. The collection's record comes last, so that an interrupted run is done again.
absl::Status IndexImpl::Reanalyze(CollectionRecord* record) {
  log::Info("index: the analyser changed, analysing again", {{"collection", record->name},
                                                             {"from", record->analyzer_fingerprint},
                                                             {"to", analyzer_->fingerprint()}});
  State state;
  state.snapshot = store_->TakeSnapshot();
  const std::string prefix = CollectionPrefix(record->id);
  CAIRN_RETURN_IF_ERROR(store_->Scan(
      *state.snapshot, Table::kDocuments, prefix, "",
      [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
        DocumentRecord document;
        if (!DecodeDocument(record->name, key.substr(prefix.size()), value, &document)) {
          return absl::DataLossError("a document record is broken");
        }
        TermsRecord terms;
        std::vector<Chunk> chunks;
        for (uint32_t i = 0; i < document.info.num_chunks; ++i) {
          CAIRN_ASSIGN_OR_RETURN(Chunk chunk,
                                 ReadChunk(state, record->id, document.uid, i, document.info));
          terms.chunks.push_back({chunk.chunk_id, chunk.language});
          chunks.push_back(std::move(chunk));
        }
        std::vector<std::vector<std::string_view>> texts;
        for (const Chunk& chunk : chunks) texts.push_back(IndexedTexts(document.info.title, chunk));
        terms.terms = AnalyzeDocument(*analyzer_, texts);
        Store::Batch batch;
        batch.Put(Table::kTerms, VersionKey(record->id, document.uid), EncodeTerms(terms));
        CAIRN_RETURN_IF_ERROR(store_->Write(batch, /*sync=*/false));
        return true;
      }));
  record->analyzer_fingerprint = analyzer_->fingerprint();
  Store::Batch batch;
  batch.Put(Table::kCollections, record->name, EncodeCollection(*record));
  return store_->Write(batch, /*sync=*/true);
}

}  // namespace cairn::retrieval
