// The retrieval role: cairn.retrieval.v1 over an Index.
#ifndef CAIRN_SERVICES_RETRIEVAL_RETRIEVAL_SERVICE_H_
#define CAIRN_SERVICES_RETRIEVAL_RETRIEVAL_SERVICE_H_

#include <memory>

#include "grpcpp/impl/service_type.h"
#include "retrieval/index/index.h"
#include "retrieval/ports.h"
#include "services/retrieval/convert.h"
#include "services/runtime/call_scope.h"

namespace cairn::services {

// The index and the ports outlive the service, and the service every call.
std::unique_ptr<grpc::Service> MakeRetrievalService(const CallRuntime& runtime,
                                                    const SearchDefaults& defaults,
                                                    retrieval::Index* index,
                                                    retrieval::Embedder* embedder,
                                                    retrieval::Reranker* reranker);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RETRIEVAL_RETRIEVAL_SERVICE_H_
