// The inference role: cairn.inference.v1 over a ModelPool.
#ifndef CAIRN_SERVICES_INFERENCE_INFERENCE_SERVICE_H_
#define CAIRN_SERVICES_INFERENCE_INFERENCE_SERVICE_H_

#include <memory>

#include "grpcpp/impl/service_type.h"
#include "services/inference/model_pool.h"
#include "services/runtime/call_scope.h"

namespace cairn::services {

// The pool outlives the service, and the service every call.
std::unique_ptr<grpc::Service> MakeInferenceService(const CallRuntime& runtime,
                                                    const ModelPool* models);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_INFERENCE_INFERENCE_SERVICE_H_
