#include "services/runtime/server.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/strings.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "services/runtime/malformed.h"
#include "services/runtime/reflection.h"

namespace cairn::services {
namespace {

// A peer that vanished without a word is noticed within KEEPALIVE_TIME + KEEPALIVE_TIMEOUT.
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Clients may ping an idle connection this often; gRPC's own minimum of 5 minutes answers ordinary
// keepalive settings with GOAWAY too_many_pings.
constexpr int kMinPingIntervalMs = 10'000;

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, const std::vector<NamedService>& services,
    HealthService* health, DrainList* drain) {
  std::unique_ptr<GrpcServer> out(new GrpcServer());
  out->max_message_bytes_ = options.max_message_bytes;
  out->health_ = health;
  out->drain_ = drain;

  std::vector<std::string> names = {grpc::health::v1::Health::service_full_name()};
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two servers on one port is a mistake
  for (const NamedService& service : services) {
    builder.RegisterService(service.service);
    names.push_back(service.full_name);
  }
  builder.RegisterService(health);
  out->reflection_ = MakeReflectionServices(names, drain);
  for (const auto& service : out->reflection_) builder.RegisterService(service.get());

  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(MakeMalformedInterceptor(names));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  out->server_ = builder.BuildAndStart();
  if (out->server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        StrCat("cannot listen on ", options.listen, ": the address is in use or not ours"));
  }
  const size_t colon = options.listen.rfind(':');
  out->address_ = StrCat(std::string_view(options.listen).substr(0, colon), ":", port);
  return out;
}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

std::shared_ptr<grpc::Channel> GrpcServer::InProcessChannel() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(max_message_bytes_);
  args.SetMaxSendMessageSize(max_message_bytes_);
  return server_->InProcessChannel(args);
}

void GrpcServer::Shutdown(absl::Duration limit) {
  if (server_ == nullptr || std::exchange(shut_down_, true)) return;
  health_->Shutdown();
  drain_->Drain();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + limit));
  server_->Wait();
}

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address, int max_message_bytes) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(max_message_bytes);
  args.SetMaxSendMessageSize(max_message_bytes);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // A server that comes back is found within a second or two, not after gRPC's two minutes.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

}  // namespace cairn::services
