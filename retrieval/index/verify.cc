// Reads everything there is and checks that it agrees.
#include "common/strings.h"
#include "retrieval/index/index_impl.h"

namespace cairn::retrieval {
namespace {

constexpr size_t kMaxProblems = 100;

}  // namespace

absl::StatusOr<VerifyReport> IndexImpl::Verify(const RequestContext& context) {
  const StatePtr state = CurrentState();
  VerifyReport report;
  const auto problem = [&](std::string_view text) {
    if (report.problems.size() < kMaxProblems) report.problems.emplace_back(text);
  };
  // Every key and value through its checksum, also of what no document refers to.
  uint64_t num_records[kNumTables] = {};
  for (int t = 0; t < kNumTables; ++t) {
    const absl::Status status =
        store_->Scan(*state->snapshot, static_cast<Table>(t), "", "",
                     [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
                       report.num_bytes += key.size() + value.size();
                       ++num_records[t];
                       if (num_records[t] % 256 == 0) CAIRN_RETURN_IF_ERROR(context.Check());
                       return true;
                     });
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (!status.ok()) problem(ToStd(status.message()));
  }

  uint64_t num_sources = 0, num_vectors = 0;
  for (const auto& [name, collection] : state->collections) {
    const uint32_t id = collection->record->id;
    const std::string prefix = CollectionPrefix(id);
    uint64_t num_documents = 0, num_chunks = 0;
    const absl::Status status = store_->Scan(
        *state->snapshot, Table::kDocuments, prefix, "",
        [&, &name = name, &collection = collection](
            std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
          CAIRN_RETURN_IF_ERROR(context.Check());
          DocumentRecord record;
          const std::string where =
              StrCat("document \"", key.substr(prefix.size()), "\" in ", name, ": ");
          if (!DecodeDocument(name, key.substr(prefix.size()), value, &record)) {
            problem(StrCat(where, "broken record"));
            return true;
          }
          ++num_documents;
          num_chunks += record.info.num_chunks;
          num_sources += (record.info.source_bytes + kSourceBlockBytes - 1) / kSourceBlockBytes;
          num_vectors += collection->record->dimension > 0;
          const absl::StatusOr<std::string> source =
              ReadSourceBytes(*state, id, record, {0, record.info.source_bytes});
          if (!source.ok()) {
            problem(StrCat(where, source.status().message()));
          } else if (Sha256Hex(*source) != record.info.content_sha256) {
            problem(StrCat(where, "the source does not have its SHA-256"));
          }
          for (uint32_t i = 0; i < record.info.num_chunks; ++i) {
            const absl::StatusOr<Chunk> chunk = ReadChunk(*state, id, record.uid, i, record.info);
            if (!chunk.ok()) {
              problem(StrCat(where, chunk.status().message()));
              continue;
            }
            const absl::StatusOr<std::string> bytes =
                store_->Get(*state->snapshot, Table::kChunkIds, ChunkIdKey(id, chunk->chunk_id));
            ChunkAddress address;
            if (!bytes.ok() || !DecodeChunkAddress(*bytes, &address) || address.uid != record.uid ||
                address.ordinal != i) {
              problem(StrCat(where, "chunk ", i, " is not found by its id"));
            }
          }
          return true;
        });
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (!status.ok()) problem(StrCat(name, ": ", status.message()));
    if (num_documents != collection->num_documents || num_chunks != collection->num_chunks()) {
      problem(StrCat(name, ": ", num_documents, " documents and ", num_chunks, " chunks on disk, ",
                     collection->num_documents, " and ", collection->num_chunks(), " in memory"));
    }
    report.num_documents += num_documents;
    report.num_chunks += num_chunks;
  }
  const auto expect = [&](Table table, std::string_view what, uint64_t expected) {
    const uint64_t found = num_records[static_cast<size_t>(table)];
    if (found != expected) problem(StrCat(found, " ", what, " on disk, ", expected, " expected"));
  };
  expect(Table::kCollections, "collections", state->collections.size());
  expect(Table::kDocuments, "documents", report.num_documents);
  expect(Table::kSources, "source blocks", num_sources);
  expect(Table::kChunks, "chunks", report.num_chunks);
  expect(Table::kChunkIds, "chunk ids", report.num_chunks);
  expect(Table::kTerms, "terms records", report.num_documents);
  expect(Table::kVectors, "vector records", num_vectors);
  return report;
}

}  // namespace cairn::retrieval
