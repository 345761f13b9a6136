#include "agent/storage/sqlite.h"

#include <sqlite3.h>
#include <sys/random.h>

#include <climits>
#include <cstdio>
#include <utility>

#include "common/strings.h"

namespace cairn::agent {
namespace {

constexpr int kBusyTimeoutMs = 5000;

absl::Status SqliteError(sqlite3* db, int code, std::string_view what) {
  const char* path = db == nullptr ? nullptr : sqlite3_db_filename(db, "main");
  const std::string message = StrCat("sqlite ", path == nullptr ? "" : path, ": ", what, ": ",
                                     db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db));
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_),
      stmt_(std::exchange(other.stmt_, nullptr)),
      next_parameter_(other.next_parameter_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() { sqlite3_finalize(stmt_); }

void Statement::Check(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = code;
}

Statement& Statement::Bind(int64_t value) {
  Check(sqlite3_bind_int64(stmt_, next_parameter_++, value));
  return *this;
}

Statement& Statement::Bind(double value) {
  Check(sqlite3_bind_double(stmt_, next_parameter_++, value));
  return *this;
}

Statement& Statement::Bind(std::string_view text) {
  Check(sqlite3_bind_text64(stmt_, next_parameter_++, text.empty() ? "" : text.data(), text.size(),
                            SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::BindBlob(std::string_view bytes) {
  Check(sqlite3_bind_blob64(stmt_, next_parameter_++, bytes.empty() ? "" : bytes.data(),
                            bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (bind_error_ != SQLITE_OK) return SqliteError(db_, bind_error_, "bind");
  const int code = sqlite3_step(stmt_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteError(db_, code, sqlite3_sql(stmt_));
}

absl::Status Statement::Run() {
  CAIRN_ASSIGN_OR_RETURN(const bool row, Step());
  if (row) return absl::InternalError(StrCat("sqlite: unexpected row from ", sqlite3_sql(stmt_)));
  return absl::OkStatus();
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(stmt_, column); }
double Statement::Double(int column) const { return sqlite3_column_double(stmt_, column); }
std::string Statement::Text(int column) const {
  const void* data = sqlite3_column_blob(stmt_, column);
  const int size = sqlite3_column_bytes(stmt_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, int version,
                                                         std::string_view schema) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<Database> db(new Database(handle, path));  // closes the handle also on failure
  if (code != SQLITE_OK) return Annotate(SqliteError(handle, code, "open"), path);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  CAIRN_RETURN_IF_ERROR(
      db->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                  "PRAGMA trusted_schema=OFF"));

  CAIRN_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db.get()));
  int64_t found = 0;
  {
    CAIRN_ASSIGN_OR_RETURN(Statement query, db->Prepare("PRAGMA user_version"));
    CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
    found = row ? query.Int(0) : 0;
  }
  if (found == 0) {
    CAIRN_RETURN_IF_ERROR(db->Execute(schema));
    CAIRN_RETURN_IF_ERROR(db->Execute(StrCat("PRAGMA user_version=", version)));
  } else if (found != version) {
    return absl::FailedPreconditionError(StrCat(
        path, " has schema version ", found, "; this program reads and writes version ", version));
  }
  CAIRN_RETURN_IF_ERROR(transaction.Commit());
  return db;
}

Database::~Database() { sqlite3_close_v2(db_); }

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  if (sql.size() > INT_MAX) return absl::InvalidArgumentError("sqlite: statement too long");
  sqlite3_stmt* stmt = nullptr;
  const int code =
      sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &stmt, nullptr);
  if (code != SQLITE_OK) return SqliteError(db_, code, sql);
  return Statement(db_, stmt);
}

absl::Status Database::Execute(std::string_view sql) {
  const int code = sqlite3_exec(db_, std::string(sql).c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteError(db_, code, sql.substr(0, 80));
}

absl::StatusOr<Transaction> Transaction::Begin(Database* db) {
  CAIRN_RETURN_IF_ERROR(db->Execute("BEGIN IMMEDIATE"));
  return Transaction(db);
}

Transaction::~Transaction() {
  if (db_ != nullptr) db_->Execute("ROLLBACK").IgnoreError();
}

absl::Status Transaction::Commit() {
  CAIRN_RETURN_IF_ERROR(db_->Execute("COMMIT"));
  db_ = nullptr;
  return absl::OkStatus();
}

absl::StatusOr<std::string> NewRandomId() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    return absl::InternalError("getrandom failed");
  }
  std::string id;
  char hex[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(hex, sizeof(hex), "%02x", byte);
    id += hex;
  }
  return id;
}

}  // namespace cairn::agent
