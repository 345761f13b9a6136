// Server reflection, v1 and v1alpha, over the descriptors compiled into the program. The library of
// the distribution has v1alpha alone and brings descriptors that would clash with ours.
//
// Threads: thread-safe. A stream is answered request by request, each answer before the next read.
#ifndef CAIRN_SERVICES_RUNTIME_REFLECTION_H_
#define CAIRN_SERVICES_RUNTIME_REFLECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/impl/service_type.h"
#include "services/runtime/drain_list.h"

namespace cairn::services {

// Both reflection services. `service_names`: full names of what the server serves; reflection's own
// are added.
std::vector<std::unique_ptr<grpc::Service>> MakeReflectionServices(
    std::vector<std::string> service_names, DrainList* drain);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RUNTIME_REFLECTION_H_
