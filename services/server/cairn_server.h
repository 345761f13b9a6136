// CairnServer: the roles of one process, wired together over one data directory.
//
//   DATA/LOCK        held while the server runs
//   DATA/index       retrieval
//   DATA/jobs        ingest
//   DATA/agent       agent: sessions.db, runs.db
//
// Roles reach each other over gRPC channels: in-process for those that are here, to an address for
// the others. Start returns as soon as the server listens; models load in the background, and
// health says when each role can answer.
//
// Threads: Start and Shutdown from one thread.
// Errors:  FAILED_PRECONDITION when the directory is in use, UNAVAILABLE when an address cannot be
//          bound, and what the stores say when they cannot be opened.
#ifndef CAIRN_SERVICES_SERVER_CAIRN_SERVER_H_
#define CAIRN_SERVICES_SERVER_CAIRN_SERVER_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/status.h"
#include "services/config/config.h"

namespace cairn::services {

class CairnServer {
 public:
  static absl::StatusOr<std::unique_ptr<CairnServer>> Start(const ServerConfig& config);
  virtual ~CairnServer() = default;

  virtual const std::string& grpc_address() const = 0;
  // "" without the gateway role.
  virtual const std::string& http_address() const = 0;
  // Refuses new work, gives running calls up to `limit`, cancels the rest and stops.
  virtual void Shutdown(absl::Duration limit) = 0;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_SERVER_CAIRN_SERVER_H_
