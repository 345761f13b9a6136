// Store: an ordered, transactional key-value store in tables, with snapshots. The only code that
// knows RocksDB.
//
// A batch is applied whole or not at all, whatever happens to the process. Values are checksummed;
// bytes that fail their checksum are DATA_LOSS, never data. Threads: Store and Snapshot are
// thread-safe, Batch is thread-compatible.
#ifndef CAIRN_RETRIEVAL_STORE_STORE_H_
#define CAIRN_RETRIEVAL_STORE_STORE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "common/status.h"

namespace cairn::retrieval {

// Each is a column family; docs/formats/index.md has keys and values.
enum class Table {
  kCollections,
  kDocuments,
  kDeleted,
  kSources,
  kChunks,
  kChunkIds,
  kTerms,
  kVectors
};
inline constexpr int kNumTables = 8;

class Store {
 public:
  class Snapshot;

  class Batch {
   public:
    Batch();
    ~Batch();
    Batch(Batch&&) noexcept;
    void Put(Table table, std::string_view key, std::string_view value);
    void Delete(Table table, std::string_view key);
    void DeletePrefix(Table table,
                      std::string_view prefix);  // REQUIRES: prefix has a byte below 0xFF

   private:
    friend class Store;
    struct Operations;
    std::unique_ptr<Operations> operations_;
  };

  // Creates `dir` when it is missing. FAILED_PRECONDITION when another process holds it.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& dir,
                                                     size_t block_cache_bytes);
  ~Store();  // REQUIRES: no snapshot is left.

  // With `sync` the batch is on the device when this returns OK.
  absl::Status Write(const Batch& batch, bool sync);
  std::shared_ptr<const Snapshot> TakeSnapshot();

  // NOT_FOUND when the key is absent.
  absl::StatusOr<std::string> Get(const Snapshot& snapshot, Table table,
                                  std::string_view key) const;

  // Visits keys that begin with `prefix` and are > `after` (when not empty), ascending, until
  // `visit` returns false. The views are valid during the call.
  using Visitor =
      absl::FunctionRef<absl::StatusOr<bool>(std::string_view key, std::string_view value)>;
  absl::Status Scan(const Snapshot& snapshot, Table table, std::string_view prefix,
                    std::string_view after, Visitor visit) const;

 private:
  struct Database;
  explicit Store(std::shared_ptr<Database> database);
  std::shared_ptr<Database> database_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_STORE_STORE_H_
