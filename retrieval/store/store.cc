#include "retrieval/store/store.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>

#include "common/check.h"
#include "common/strings.h"

namespace cairn::retrieval {
namespace {

constexpr std::array<const char*, kNumTables> kTableNames = {
    "collections", "documents", "deleted", "sources", "chunks", "chunk_ids", "terms", "vectors"};

rocksdb::Slice ToSlice(std::string_view s) { return {s.data(), s.size()}; }
std::string_view ToView(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

absl::Status ToStatus(const rocksdb::Status& status, std::string_view operation) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = StrCat("index store, ", operation, ": ", status.ToString());
  if (status.IsNotFound()) return absl::NotFoundError(message);
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// The first key after all that begin with `prefix`.
std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<uint8_t>(end.back()) == 0xFF) end.pop_back();
  CAIRN_CHECK(!end.empty());
  ++end.back();
  return end;
}

rocksdb::ColumnFamilyOptions TableOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions blocks;
  blocks.block_cache = cache;
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  blocks.format_version = 5;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  const std::vector<rocksdb::CompressionType> supported = rocksdb::GetSupportedCompressions();
  const bool lz4 =
      std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end();
  options.compression = lz4 ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
  return options;
}

}  // namespace

struct Store::Database {
  std::unique_ptr<rocksdb::DB> db;
  std::array<rocksdb::ColumnFamilyHandle*, kNumTables> tables{};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;

  rocksdb::ColumnFamilyHandle* table(Table table) const {
    return tables[static_cast<size_t>(table)];
  }
  ~Database() {
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  }
};

class Store::Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<Database> database)
      : database_(std::move(database)), snapshot_(database_->db->GetSnapshot()) {}
  ~Snapshot() { database_->db->ReleaseSnapshot(snapshot_); }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  rocksdb::ReadOptions read_options() const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    options.verify_checksums = true;
    return options;
  }

 private:
  std::shared_ptr<Database> database_;
  const rocksdb::Snapshot* snapshot_;
};

// Kept as plain operations: column family handles belong to an open store.
struct Store::Batch::Operations {
  struct Operation {
    enum Kind { kPut, kDelete, kDeletePrefix } kind;
    Table table;
    std::string key, value;
  };
  std::vector<Operation> list;
};

Store::Batch::Batch() : operations_(std::make_unique<Operations>()) {}
Store::Batch::~Batch() = default;
Store::Batch::Batch(Batch&&) noexcept = default;

void Store::Batch::Put(Table table, std::string_view key, std::string_view value) {
  operations_->list.push_back(
      {Operations::Operation::kPut, table, std::string(key), std::string(value)});
}
void Store::Batch::Delete(Table table, std::string_view key) {
  operations_->list.push_back({Operations::Operation::kDelete, table, std::string(key), ""});
}
void Store::Batch::DeletePrefix(Table table, std::string_view prefix) {
  operations_->list.push_back(
      {Operations::Operation::kDeletePrefix, table, std::string(prefix), ""});
}

Store::Store(std::shared_ptr<Database> database) : database_(std::move(database)) {}
Store::~Store() = default;

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& dir,
                                                   size_t block_cache_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.max_total_wal_size = uint64_t{256} << 20;

  const auto cache = rocksdb::NewLRUCache(block_cache_bytes);
  const rocksdb::ColumnFamilyOptions table_options = TableOptions(cache);
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, table_options}};
  for (const char* name : kTableNames) families.emplace_back(name, table_options);

  auto database = std::make_shared<Database>();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, dir, families, &database->handles, &db);
  if (!status.ok()) return ToStatus(status, StrCat("open ", dir));
  database->db.reset(db);
  std::copy(database->handles.begin() + 1, database->handles.end(), database->tables.begin());
  return std::unique_ptr<Store>(new Store(std::move(database)));
}

absl::Status Store::Write(const Batch& batch, bool sync) {
  using Operation = Batch::Operations::Operation;
  rocksdb::WriteBatch writes;
  for (const Operation& operation : batch.operations_->list) {
    rocksdb::ColumnFamilyHandle* table = database_->table(operation.table);
    rocksdb::Status status;
    switch (operation.kind) {
      case Operation::kPut:
        status = writes.Put(table, ToSlice(operation.key), ToSlice(operation.value));
        break;
      case Operation::kDelete:
        status = writes.Delete(table, ToSlice(operation.key));
        break;
      case Operation::kDeletePrefix:
        status =
            writes.DeleteRange(table, ToSlice(operation.key), ToSlice(PrefixEnd(operation.key)));
        break;
    }
    CAIRN_RETURN_IF_ERROR(ToStatus(status, "batch"));
  }
  rocksdb::WriteOptions options;
  options.sync = sync;
  return ToStatus(database_->db->Write(options, &writes), "write");
}

std::shared_ptr<const Store::Snapshot> Store::TakeSnapshot() {
  return std::make_shared<const Snapshot>(database_);
}

absl::StatusOr<std::string> Store::Get(const Snapshot& snapshot, Table table,
                                       std::string_view key) const {
  std::string value;
  const rocksdb::Status status =
      database_->db->Get(snapshot.read_options(), database_->table(table), ToSlice(key), &value);
  if (!status.ok()) return ToStatus(status, kTableNames[static_cast<size_t>(table)]);
  return value;
}

absl::Status Store::Scan(const Snapshot& snapshot, Table table, std::string_view prefix,
                         std::string_view after, Visitor visit) const {
  std::unique_ptr<rocksdb::Iterator> it(
      database_->db->NewIterator(snapshot.read_options(), database_->table(table)));
  it->Seek(ToSlice(std::max(prefix, after)));
  for (; it->Valid(); it->Next()) {
    const std::string_view key = ToView(it->key());
    if (!key.starts_with(prefix)) break;
    if (!after.empty() && key <= after) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool more, visit(key, ToView(it->value())));
    if (!more) break;
  }
  return ToStatus(it->status(), kTableNames[static_cast<size_t>(table)]);
}

}  // namespace cairn::retrieval
