#include "services/cli/session.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "services/runtime/shutdown.h"

namespace cairn::services::cli {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;  // the server bounds what it sends
constexpr absl::Duration kConnectTime = absl::Seconds(3);

common::v1::MetadataValue ParseValue(const std::string& text) {
  common::v1::MetadataValue value;
  int64_t whole = 0;
  double number = 0;
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
    value.set_string_value(text.substr(1, text.size() - 2));
  } else if (text == "true" || text == "false") {
    value.set_bool_value(text == "true");
  } else if (absl::SimpleAtoi(text, &whole)) {
    value.set_int_value(whole);
  } else if (absl::SimpleAtod(text, &number)) {
    value.set_double_value(number);
  } else {
    value.set_string_value(text);
  }
  return value;
}

// "low..high" with either side absent.
bool ParseRange(const std::string& text, common::v1::ValueRange* range) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return false;
  const std::string low = text.substr(0, dots), high = text.substr(dots + 2);
  double number = 0;
  if (!low.empty()) {
    if (!absl::SimpleAtod(low, &number)) return false;
    range->set_low(number);
  }
  if (!high.empty()) {
    if (!absl::SimpleAtod(high, &number)) return false;
    range->set_high(number);
  }
  return !low.empty() || !high.empty();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const Globals& globals) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  auto channel =
      grpc::CreateCustomChannel(globals.server, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + kConnectTime))) {
    return WithReason(
        absl::UnavailableError(StrCat("cannot reach a server at ", globals.server,
                                      ": start one with `cairn serve`, or name it with --server")),
        "NO_SERVER");
  }
  return channel;
}

RequestContext CommandContext() { return RequestContext(ShutdownSignal::Source()); }

int Fail(const Globals& globals, const absl::Status& status) {
  if (ShutdownSignal::Received() != 0) {
    std::cerr << "cairn: interrupted\n";
    return kInterrupted;
  }
  std::string message(status.message());
  if (const auto delay = RetryAfterOf(status)) {
    StrAppend(&message, " (try again in ", absl::FormatDuration(*delay), ")");
  }
  if (globals.json) {
    std::cerr << nlohmann::json{{"error", SanitizeUtf8(message)},
                                {"code", absl::StatusCodeToString(status.code())},
                                {"reason", ReasonOf(status)}}
                     .dump()
              << "\n";
  } else {
    std::cerr << "cairn: " << message << "\n";
  }
  return ReasonOf(status) == "NO_SERVER" ? kNoServer : kFailed;
}

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  if (google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    std::cout << text << "\n" << std::flush;
  }
}

absl::StatusOr<common::v1::Filter> ParseFilter(const std::vector<std::string>& conditions) {
  std::map<std::string, std::vector<std::string>> by_key;
  for (const std::string& condition : conditions) {
    const size_t equals = condition.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(StrCat("--filter wants KEY=VALUE or KEY=LOW..HIGH, got \"",
                                               SanitizeUtf8(condition), "\""));
    }
    by_key[condition.substr(0, equals)].push_back(condition.substr(equals + 1));
  }
  common::v1::Filter filter;
  for (const auto& [key, values] : by_key) {
    common::v1::Condition* condition = filter.add_conditions();
    condition->set_key(key);
    if (values.size() > 1) {
      for (const std::string& value : values)
        *condition->mutable_in()->add_values() = ParseValue(value);
      continue;
    }
    common::v1::ValueRange range;
    if (ParseRange(values[0], &range)) {
      *condition->mutable_range() = range;
    } else {
      *condition->mutable_equals() = ParseValue(values[0]);
    }
  }
  return filter;
}

}  // namespace cairn::services::cli
