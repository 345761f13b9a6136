// What every client command does: connect, carry Ctrl-C to the server, report errors, print.
#ifndef CAIRN_SERVICES_CLI_SESSION_H_
#define CAIRN_SERVICES_CLI_SESSION_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/common/v1/common.pb.h"
#include "common/context.h"
#include "common/status.h"
#include "services/cli/command.h"

namespace google::protobuf {
class Message;
}

namespace cairn::services::cli {

// A channel to the server, connected: UNAVAILABLE, reason NO_SERVER, saying how to start one
// otherwise.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const Globals& globals);

// Cancelled by Ctrl-C.
RequestContext CommandContext();

// Prints "cairn: message" (with --json an object {"error": ...}) and returns the exit code.
int Fail(const Globals& globals, const absl::Status& status);

// One line of JSON, in the proto's JSON form with its field names.
void PrintJson(const google::protobuf::Message& message);

// key=value, and repeated keys mean "one of": true, false and numbers are typed unless quoted
// ('7'). key=low..high is a range of numbers.
absl::StatusOr<common::v1::Filter> ParseFilter(const std::vector<std::string>& conditions);

}  // namespace cairn::services::cli

#endif  // CAIRN_SERVICES_CLI_SESSION_H_
