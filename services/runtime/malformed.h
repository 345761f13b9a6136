// A request whose bytes are no message of its method: gRPC's callback API answers it with a bare
// UNIMPLEMENTED before any handler runs, which tells a client that the method does not exist. With
// this interceptor it is INVALID_ARGUMENT, reason MALFORMED_REQUEST.
#ifndef CAIRN_SERVICES_RUNTIME_MALFORMED_H_
#define CAIRN_SERVICES_RUNTIME_MALFORMED_H_

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace cairn::services {

// Only for services that implement all their methods: a bare UNIMPLEMENTED of one of them then has
// no other cause. `service_names` are full names; methods of others are left alone.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeMalformedInterceptor(
    const std::vector<std::string>& service_names);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_MALFORMED_H_
