// Database and Statement: the little of SQLite that the stores need. The only file that includes
// sqlite3.h is sqlite.cc.
//
// Threads: thread-compatible; a store holds its own mutex. Statements must not outlive their
// database. Errors: RESOURCE_EXHAUSTED (disk full), UNAVAILABLE (busy), DATA_LOSS (corrupt or not a
// database), else INTERNAL; messages carry the path.
#ifndef CAIRN_AGENT_STORAGE_SQLITE_H_
#define CAIRN_AGENT_STORAGE_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace cairn::agent {

// A prepared statement, stepped through once. A bind that fails is reported by the next Step.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Binds the next parameter, from left to right.
  Statement& Bind(int64_t value);
  Statement& Bind(double value);
  Statement& Bind(std::string_view text);
  Statement& BindBlob(std::string_view bytes);

  // True when there is a row, false at the end.
  absl::StatusOr<bool> Step();
  // For statements without rows.
  absl::Status Run();

  // Columns of the current row, from 0. A NULL reads as 0 or "".
  int64_t Int(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;  // also blobs

 private:
  friend class Database;
  Statement(sqlite3* db, sqlite3_stmt* stmt) : db_(db), stmt_(stmt) {}
  void Check(int code);

  sqlite3* db_;
  sqlite3_stmt* stmt_;
  int next_parameter_ = 1;
  int bind_error_ = 0;
};

class Database {
 public:
  // Opens or creates the file in WAL mode with full sync and foreign keys. An empty file gets
  // `schema` and user_version = `version`; a file of a newer version is FAILED_PRECONDITION.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, int version,
                                                        std::string_view schema);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  absl::StatusOr<Statement> Prepare(std::string_view sql);
  absl::Status Execute(std::string_view sql);

 private:
  Database(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  sqlite3* db_;
  std::string path_;
};

// BEGIN IMMEDIATE; rolled back when destroyed without Commit.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database* db);
  Transaction(Transaction&& other) noexcept : db_(other.db_) { other.db_ = nullptr; }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  absl::Status Commit();

 private:
  explicit Transaction(Database* db) : db_(db) {}
  Database* db_;
};

// Times are stored as microseconds since the Unix epoch.
inline int64_t ToStored(absl::Time time) { return absl::ToUnixMicros(time); }
inline absl::Time FromStored(int64_t micros) { return absl::FromUnixMicros(micros); }

// 128 bits from the system's random source, as 32 hex digits. INTERNAL when it cannot be read.
absl::StatusOr<std::string> NewRandomId();

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_STORAGE_SQLITE_H_
