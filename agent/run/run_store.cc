#include "agent/run/run_store.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"
#include "agent/storage/sqlite.h"
#include "common/strings.h"

namespace cairn::agent {
namespace {

constexpr int kSchemaVersion = 1;
// An event row holds the fields of its kind; what a kind does not have is '' or 0. `a`..`d` by
// kind:
//   step: turn.  model_output: text; prompt_tokens, completion_tokens.  tool_call: call_id, name,
//   arguments. tool_result: call_id, name, text; ok.  refused: reason, call_id, name, message.  The
//   final is in its run.
constexpr std::string_view kSchema = R"sql(
CREATE TABLE runs (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL, task TEXT NOT NULL, collection TEXT NOT NULL,
  created INTEGER NOT NULL, updated INTEGER NOT NULL, status INTEGER NOT NULL,
  answer TEXT NOT NULL DEFAULT '', missing TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '',
  turns INTEGER NOT NULL DEFAULT 0, tool_calls INTEGER NOT NULL DEFAULT 0, prompt_tokens INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0, elapsed INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX runs_by_owner ON runs (tenant, principal, created);
CREATE TABLE events (
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, position INTEGER NOT NULL, kind TEXT NOT NULL,
  a TEXT NOT NULL, b TEXT NOT NULL, c TEXT NOT NULL, d TEXT NOT NULL, x INTEGER NOT NULL, y INTEGER NOT NULL,
  PRIMARY KEY (run_id, position)) WITHOUT ROWID;
)sql";
constexpr std::string_view kRunColumns =
    "id, task, collection, created, updated, status, answer, missing, detail, turns, tool_calls, "
    "prompt_tokens, "
    "completion_tokens, elapsed, (SELECT COUNT(*) FROM events WHERE run_id = runs.id)";

struct EventRow {
  std::string kind, a, b, c, d;
  int64_t x = 0, y = 0;
};

struct ToRow {
  EventRow operator()(const StepStarted& e) const { return {"step", "", "", "", "", e.turn}; }
  EventRow operator()(const ModelOutput& e) const {
    return {"model_output", e.text, "", "", "", e.prompt_tokens, e.completion_tokens};
  }
  EventRow operator()(const ToolCall& e) const {
    return {"tool_call", e.call_id, e.name, e.arguments_json, ""};
  }
  EventRow operator()(const ToolResult& e) const {
    return {"tool_result", e.call_id, e.name, e.text, "", e.ok};
  }
  EventRow operator()(const Refused& e) const {
    return {"refused", e.reason, e.call_id, e.name, e.message};
  }
  EventRow operator()(const RunFinal&) const { return {"final"}; }
};

absl::StatusOr<RunEvent> FromRow(const EventRow& r, const RunFinal& final) {
  if (r.kind == "step") return StepStarted{static_cast<int>(r.x)};
  if (r.kind == "model_output")
    return ModelOutput{r.a, static_cast<int>(r.x), static_cast<int>(r.y)};
  if (r.kind == "tool_call") return ToolCall{r.a, r.b, r.c};
  if (r.kind == "tool_result") return ToolResult{r.a, r.b, r.x != 0, r.c};
  if (r.kind == "refused") return Refused{r.a, r.b, r.c, r.d};
  if (r.kind == "final") return final;
  return absl::DataLossError(StrCat("unknown kind of run event: ", r.kind));
}

class SqliteRunStore : public RunStore {
 public:
  explicit SqliteRunStore(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  // Runs that their process did not end.
  absl::Status CloseInterrupted() {
    CAIRN_ASSIGN_OR_RETURN(Statement update,
                           db_->Prepare("UPDATE runs SET status = ?, detail = 'the process ended "
                                        "during the run' WHERE status = ?"));
    return update.Bind(static_cast<int64_t>(RunStatus::kFailed))
        .Bind(static_cast<int64_t>(RunStatus::kRunning))
        .Run();
  }

  absl::StatusOr<std::string> Create(const RequestContext& context,
                                     const RunRequest& request) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    CAIRN_ASSIGN_OR_RETURN(std::string id, NewRandomId());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(
        Statement insert,
        db_->Prepare("INSERT INTO runs (id, tenant, principal, task, collection, created, updated, "
                     "status) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
    const int64_t now = ToStored(absl::Now());
    CAIRN_RETURN_IF_ERROR(insert.Bind(id)
                              .Bind(context.identity().tenant)
                              .Bind(context.identity().principal)
                              .Bind(request.task)
                              .Bind(request.collection)
                              .Bind(now)
                              .Bind(now)
                              .Bind(static_cast<int64_t>(RunStatus::kRunning))
                              .Run());
    return id;
  }

  absl::Status Append(const RequestContext& context, std::string_view run_id,
                      const RunEvent& event) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    CAIRN_ASSIGN_OR_RETURN(const RunInfo info, Find(context, run_id));
    if (info.final.status != RunStatus::kRunning) {
      return absl::FailedPreconditionError(StrCat("run ", run_id, " has ended"));
    }
    const EventRow row = std::visit(ToRow(), event);
    CAIRN_ASSIGN_OR_RETURN(Statement insert,
                           db_->Prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    CAIRN_RETURN_IF_ERROR(insert.Bind(run_id)
                              .Bind(int64_t{info.num_events})
                              .Bind(row.kind)
                              .Bind(row.a)
                              .Bind(row.b)
                              .Bind(row.c)
                              .Bind(row.d)
                              .Bind(row.x)
                              .Bind(row.y)
                              .Run());
    CAIRN_RETURN_IF_ERROR(Touch(run_id, std::get_if<RunFinal>(&event)));
    return transaction.Commit();
  }

  absl::StatusOr<std::vector<RunInfo>> List(const RequestContext& context, int limit) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    CAIRN_ASSIGN_OR_RETURN(Statement query,
                           db_->Prepare(StrCat("SELECT ", kRunColumns,
                                               " FROM runs WHERE tenant = ? AND principal = ? ",
                                               "ORDER BY created DESC, id LIMIT ?")));
    query.Bind(context.identity().tenant)
        .Bind(context.identity().principal)
        .Bind(int64_t{std::max(0, limit)});
    std::vector<RunInfo> runs;
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return runs;
      runs.push_back(ReadInfo(query));
    }
  }

  absl::StatusOr<RunRecord> Get(const RequestContext& context, std::string_view run_id) override {
    CAIRN_RETURN_IF_ERROR(context.Check());
    std::lock_guard lock(mutex_);
    RunRecord record;
    CAIRN_ASSIGN_OR_RETURN(record.info, Find(context, run_id));
    CAIRN_ASSIGN_OR_RETURN(
        Statement query,
        db_->Prepare(
            "SELECT kind, a, b, c, d, x, y FROM events WHERE run_id = ? ORDER BY position"));
    query.Bind(run_id);
    while (true) {
      CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return record;
      CAIRN_ASSIGN_OR_RETURN(RunEvent event,
                             FromRow({query.Text(0), query.Text(1), query.Text(2), query.Text(3),
                                      query.Text(4), query.Int(5), query.Int(6)},
                                     record.info.final));
      record.events.push_back(std::move(event));
    }
  }

 private:
  static RunInfo ReadInfo(const Statement& row) {
    RunInfo info{row.Text(0),
                 row.Text(1),
                 row.Text(2),
                 FromStored(row.Int(3)),
                 FromStored(row.Int(4)),
                 {},
                 0};
    info.final = {
        static_cast<RunStatus>(row.Int(5)),
        row.Text(6),
        row.Text(7),
        row.Text(8),
        {static_cast<int>(row.Int(9)), static_cast<int>(row.Int(10)), static_cast<int>(row.Int(11)),
         static_cast<int>(row.Int(12)), absl::Microseconds(row.Int(13))}};
    info.num_events = static_cast<int>(row.Int(14));
    return info;
  }

  // The one place where ownership is checked.
  absl::StatusOr<RunInfo> Find(const RequestContext& context, std::string_view id) {
    CAIRN_ASSIGN_OR_RETURN(
        Statement query,
        db_->Prepare(StrCat("SELECT ", kRunColumns,
                            " FROM runs WHERE id = ? AND tenant = ? AND principal = ?")));
    query.Bind(id).Bind(context.identity().tenant).Bind(context.identity().principal);
    CAIRN_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row)
      return WithReason(absl::NotFoundError(StrCat("no run ", id.substr(0, 64))), "RUN_NOT_FOUND");
    return ReadInfo(query);
  }

  absl::Status Touch(std::string_view run_id, const RunFinal* final) {
    const int64_t now = ToStored(absl::Now());
    if (final == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(Statement touch,
                             db_->Prepare("UPDATE runs SET updated = ? WHERE id = ?"));
      return touch.Bind(now).Bind(run_id).Run();
    }
    CAIRN_ASSIGN_OR_RETURN(
        Statement end,
        db_->Prepare(
            "UPDATE runs SET updated = ?, status = ?, answer = ?, missing = ?, detail = ?, "
            "turns = ?, tool_calls = ?, prompt_tokens = ?, completion_tokens = ?, "
            "elapsed = ? WHERE id = ?"));
    return end.Bind(now)
        .Bind(static_cast<int64_t>(final->status))
        .Bind(final->answer)
        .Bind(final->missing)
        .Bind(final->detail)
        .Bind(int64_t{final->usage.turns})
        .Bind(int64_t{final->usage.tool_calls})
        .Bind(int64_t{final->usage.prompt_tokens})
        .Bind(int64_t{final->usage.completion_tokens})
        .Bind(absl::ToInt64Microseconds(final->usage.elapsed))
        .Bind(run_id)
        .Run();
  }

  std::mutex mutex_;
  const std::unique_ptr<Database> db_;
};

}  // namespace

const char* RunStatusName(RunStatus status) {
  static constexpr const char* kNames[] = {"running", "completed", "gave_up",
                                           "limit",   "failed",    "cancelled"};
  const auto i = static_cast<size_t>(status);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

absl::StatusOr<std::unique_ptr<RunStore>> RunStore::Open(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Database> db,
                         Database::Open(path, kSchemaVersion, kSchema));
  auto store = std::make_unique<SqliteRunStore>(std::move(db));
  CAIRN_RETURN_IF_ERROR(store->CloseInterrupted());
  return store;
}

}  // namespace cairn::agent
