#include "agent/session/session_store.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"
#include "agent/storage/sqlite.h"
#include "common/strings.h"

namespace cairn::agent {
namespace {

constexpr int kSchemaVersion = 1;
// Quotes are BLOBs: they are bytes of documents in any encoding.
constexpr std::string_view kSchema = R"sql(
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL, collection TEXT NOT NULL,
  created INTEGER NOT NULL, updated INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX sessions_by_owner ON sessions (tenant, principal, updated);
CREATE TABLE turns (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE, turn INTEGER NOT NULL,
  question TEXT NOT NULL, answer TEXT NOT NULL, abstained INTEGER NOT NULL, time INTEGER NOT NULL,
  PRIMARY KEY (session_id, turn)) WITHOUT ROWID;
CREATE TABLE sentences (
  session_id TEXT NOT NULL, turn INTEGER NOT NULL, sentence INTEGER NOT NULL,
  begin_byte INTEGER NOT NULL, end_byte INTEGER NOT NULL, supported INTEGER NOT NULL,
  PRIMARY KEY (session_id, turn, sentence),
  FOREIGN KEY (session_id, turn) REFERENCES turns (session_id, turn) ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE issues (
  session_id TEXT NOT NULL, turn INTEGER NOT NULL, sentence INTEGER NOT NULL, position INTEGER NOT NULL,
  reason TEXT NOT NULL, detail TEXT NOT NULL,
  PRIMARY KEY (session_id, turn, sentence, position),
  FOREIGN KEY (session_id, turn) REFERENCES turns (session_id, turn) ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE citations (
  session_id TEXT NOT NULL, turn INTEGER NOT NULL, sentence INTEGER NOT NULL, position INTEGER NOT NULL,
  source INTEGER NOT NULL, chunk_id TEXT NOT NULL, document_id TEXT NOT NULL, version INTEGER NOT NULL,
  span_begin INTEGER NOT NULL, span_end INTEGER NOT NULL, quote BLOB NOT NULL, text TEXT NOT NULL, score REAL NOT NULL,
  PRIMARY KEY (session_id, turn, sentence, position),
  FOREIGN KEY (session_id, turn) REFERENCES turns (session_id, turn) ON DELETE CASCADE) WITHOUT ROWID;
)sql";

absl::Status NoSession(std::string_view id) {
  return WithReason(absl::NotFoundError(StrCat("no session ", id.substr(0, 64))),
                    "SESSION_NOT_FOUND");
}

class SqliteSessionStore : public SessionStore {
 public:
  explicit SqliteSessionStore(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  absl::StatusOr<std::string> Create(const RequestContext& context,
                                     std::string_view collection) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    CAIRN_ASSIGN_OR_RETURN(std::string id, NewRandomId());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(Statement insert,
                           db_->Prepare("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)"));
    const int64_t now = ToStored(absl::Now());
    CAIRN_RETURN_IF_ERROR(insert.Bind(id)
                              .Bind(context.identity().tenant)
                              .Bind(context.identity().principal)
                              .Bind(collection)
                              .Bind(now)
                              .Bind(now)
                              .Run());
    return id;
  }

  absl::Status Append(const RequestContext& context, std::string_view id,
                      const SessionTurn& turn) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    CAIRN_ASSIGN_OR_RETURN(const SessionInfo info, Find(context, id));
    const int64_t number = info.num_turns;
    CAIRN_ASSIGN_OR_RETURN(Statement insert,
                           db_->Prepare("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?)"));
    CAIRN_RETURN_IF_ERROR(insert.Bind(id)
                              .Bind(number)
                              .Bind(turn.question)
                              .Bind(turn.answer)
                              .Bind(int64_t{turn.abstained})
                              .Bind(ToStored(turn.time))
                              .Run());
    for (const AnswerSentence& sentence : turn.sentences) {
      CAIRN_RETURN_IF_ERROR(InsertSentence(id, number, sentence));
    }
    CAIRN_ASSIGN_OR_RETURN(Statement touch,
                           db_->Prepare("UPDATE sessions SET updated = ? WHERE id = ?"));
    CAIRN_RETURN_IF_ERROR(touch.Bind(ToStored(turn.time)).Bind(id).Run());
    return transaction.Commit();
  }

  absl::StatusOr<std::vector<SessionTurn>> History(const RequestContext& context,
                                                   std::string_view id, int max_turns) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(const SessionInfo info, Find(context, id));
    const int64_t first = std::max(0, info.num_turns - std::max(0, max_turns));
    CAIRN_ASSIGN_OR_RETURN(Statement query,
                           db_->Prepare("SELECT turn, question, answer, abstained, time FROM turns "
                                        "WHERE session_id = ? AND turn >= ? ORDER BY turn"));
    query.Bind(id).Bind(first);
    std::vector<SessionTurn> turns;
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return turns;
      SessionTurn turn{
          query.Text(1), query.Text(2), query.Int(3) != 0, {}, FromStored(query.Int(4))};
      CAIRN_ASSIGN_OR_RETURN(turn.sentences, ReadSentences(id, query.Int(0)));
      turns.push_back(std::move(turn));
    }
  }

  absl::StatusOr<SessionInfo> Get(const RequestContext& context, std::string_view id) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    return Find(context, id);
  }

  absl::StatusOr<std::vector<SessionInfo>> List(const RequestContext& context, int limit) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(
        Statement query,
        db_->Prepare("SELECT id, collection, created, updated, "
                     "(SELECT COUNT(*) FROM turns WHERE session_id = sessions.id) FROM sessions "
                     "WHERE tenant = ? AND principal = ? ORDER BY updated DESC, id LIMIT ?"));
    query.Bind(context.identity().tenant)
        .Bind(context.identity().principal)
        .Bind(int64_t{std::max(0, limit)});
    std::vector<SessionInfo> sessions;
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return sessions;
      sessions.push_back(ReadInfo(query));
    }
  }

  absl::Status Delete(const RequestContext& context, std::string_view id) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    CAIRN_RETURN_IF_ERROR(Find(context, id).status());
    CAIRN_ASSIGN_OR_RETURN(Statement erase, db_->Prepare("DELETE FROM sessions WHERE id = ?"));
    return erase.Bind(id).Run();
  }

 private:
  static SessionInfo ReadInfo(const Statement& row) {
    return {row.Text(0), row.Text(1), FromStored(row.Int(2)), FromStored(row.Int(3)),
            static_cast<int>(row.Int(4))};
  }

  // The one place where ownership is checked.
  absl::StatusOr<SessionInfo> Find(const RequestContext& context, std::string_view id) {
    CAIRN_ASSIGN_OR_RETURN(
        Statement query,
        db_->Prepare("SELECT id, collection, created, updated, "
                     "(SELECT COUNT(*) FROM turns WHERE session_id = sessions.id) FROM sessions "
                     "WHERE id = ? AND tenant = ? AND principal = ?"));
    query.Bind(id).Bind(context.identity().tenant).Bind(context.identity().principal);
    CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return NoSession(id);
    return ReadInfo(query);
  }

  absl::Status InsertSentence(std::string_view id, int64_t turn, const AnswerSentence& sentence) {
    CAIRN_ASSIGN_OR_RETURN(Statement insert,
                           db_->Prepare("INSERT INTO sentences VALUES (?, ?, ?, ?, ?, ?)"));
    CAIRN_RETURN_IF_ERROR(insert.Bind(id)
                              .Bind(turn)
                              .Bind(int64_t{sentence.index})
                              .Bind(static_cast<int64_t>(sentence.begin))
                              .Bind(static_cast<int64_t>(sentence.end))
                              .Bind(int64_t{sentence.supported})
                              .Run());
    int64_t position = 0;
    for (const SupportIssue& issue : sentence.issues) {
      CAIRN_ASSIGN_OR_RETURN(Statement row,
                             db_->Prepare("INSERT INTO issues VALUES (?, ?, ?, ?, ?, ?)"));
      CAIRN_RETURN_IF_ERROR(row.Bind(id)
                                .Bind(turn)
                                .Bind(int64_t{sentence.index})
                                .Bind(position++)
                                .Bind(issue.reason)
                                .Bind(issue.detail)
                                .Run());
    }
    position = 0;
    for (const Citation& c : sentence.citations) {
      CAIRN_ASSIGN_OR_RETURN(
          Statement row,
          db_->Prepare("INSERT INTO citations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
      CAIRN_RETURN_IF_ERROR(row.Bind(id)
                                .Bind(turn)
                                .Bind(int64_t{sentence.index})
                                .Bind(position++)
                                .Bind(int64_t{c.source})
                                .Bind(c.chunk_id)
                                .Bind(c.document_id)
                                .Bind(static_cast<int64_t>(c.version))
                                .Bind(static_cast<int64_t>(c.span_begin))
                                .Bind(static_cast<int64_t>(c.span_end))
                                .BindBlob(c.quote)
                                .Bind(c.text)
                                .Bind(c.score)
                                .Run());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<AnswerSentence>> ReadSentences(std::string_view id, int64_t turn) {
    std::vector<AnswerSentence> sentences;
    CAIRN_ASSIGN_OR_RETURN(
        Statement query,
        db_->Prepare("SELECT sentence, begin_byte, end_byte, supported FROM sentences "
                     "WHERE session_id = ? AND turn = ? ORDER BY sentence"));
    query.Bind(id).Bind(turn);
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return sentences;
      AnswerSentence s;
      s.index = static_cast<int>(query.Int(0));
      s.begin = static_cast<uint64_t>(query.Int(1));
      s.end = static_cast<uint64_t>(query.Int(2));
      s.supported = query.Int(3) != 0;
      CAIRN_RETURN_IF_ERROR(ReadDetails(id, turn, &s));
      sentences.push_back(std::move(s));
    }
  }

  absl::Status ReadDetails(std::string_view id, int64_t turn, AnswerSentence* sentence) {
    CAIRN_ASSIGN_OR_RETURN(
        Statement issues,
        db_->Prepare("SELECT reason, detail FROM issues WHERE session_id = ? AND turn = ? "
                     "AND sentence = ? ORDER BY position"));
    issues.Bind(id).Bind(turn).Bind(int64_t{sentence->index});
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, issues.Step());
      if (!row) break;
      sentence->issues.push_back({issues.Text(0), issues.Text(1)});
    }
    CAIRN_ASSIGN_OR_RETURN(
        Statement citations,
        db_->Prepare(
            "SELECT source, chunk_id, document_id, version, span_begin, span_end, quote, text, "
            "score "
            "FROM citations WHERE session_id = ? AND turn = ? AND sentence = ? ORDER BY position"));
    citations.Bind(id).Bind(turn).Bind(int64_t{sentence->index});
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, citations.Step());
      if (!row) return absl::OkStatus();
      sentence->citations.push_back({static_cast<int>(citations.Int(0)), citations.Text(1),
                                     citations.Text(2), static_cast<uint64_t>(citations.Int(3)),
                                     static_cast<uint64_t>(citations.Int(4)),
                                     static_cast<uint64_t>(citations.Int(5)), citations.Text(6),
                                     citations.Text(7), citations.Double(8)});
    }
  }

  std::mutex mutex_;
  const std::unique_ptr<Database> db_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> SessionStore::Open(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Database> db,
                         Database::Open(path, kSchemaVersion, kSchema));
  return std::make_unique<SqliteSessionStore>(std::move(db));
}

}  // namespace cairn::agent
