// SessionStore keeps conversations in one SQLite file (WAL), with the citations of every answer.
//
// Identity: a session id is 128 random bits in hex. Every call checks that the principal and tenant
// of the context own the session; another's session is NOT_FOUND, exactly as one that never
// existed. Threads: thread-safe (one connection behind a mutex). Errors: NOT_FOUND,
// FAILED_PRECONDITION (file written by a newer version), UNAVAILABLE (busy), INTERNAL.
#ifndef CAIRN_AGENT_SESSION_SESSION_STORE_H_
#define CAIRN_AGENT_SESSION_SESSION_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "agent/ask/answer.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

struct SessionTurn {
  std::string question;
  std::string answer;
  bool abstained = false;
  std::vector<AnswerSentence> sentences;  // with their citations
  absl::Time time;
};

struct SessionInfo {
  std::string id;
  std::string collection;
  absl::Time created, updated;
  int num_turns = 0;
};

class SessionStore {
 public:
  static absl::StatusOr<std::unique_ptr<SessionStore>> Open(const std::string& path);
  virtual ~SessionStore() = default;

  virtual absl::StatusOr<std::string> Create(const RequestContext& context,
                                             std::string_view collection) = 0;
  // One turn, in one transaction.
  virtual absl::Status Append(const RequestContext& context, std::string_view session_id,
                              const SessionTurn& turn) = 0;
  // The last `max_turns`, oldest first.
  virtual absl::StatusOr<std::vector<SessionTurn>> History(const RequestContext& context,
                                                           std::string_view session_id,
                                                           int max_turns) = 0;
  virtual absl::StatusOr<SessionInfo> Get(const RequestContext& context,
                                          std::string_view session_id) = 0;
  // The caller's sessions, newest first.
  virtual absl::StatusOr<std::vector<SessionInfo>> List(const RequestContext& context,
                                                        int limit) = 0;
  virtual absl::Status Delete(const RequestContext& context, std::string_view session_id) = 0;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_SESSION_SESSION_STORE_H_
