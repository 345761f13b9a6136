#include "services/runtime/malformed.h"

#include <google/protobuf/descriptor.h>

#include <set>

#include "common/status.h"
#include "common/strings.h"
#include "services/runtime/status_map.h"

namespace cairn::services {
namespace {

using grpc::experimental::InterceptionHookPoints;

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
          status.error_message().empty()) {
        methods->ModifySendStatus(ToGrpc(WithReason(
            absl::InvalidArgumentError("the request's bytes are no message of this method"),
            "MALFORMED_REQUEST")));
      }
    }
    methods->Proceed();
  }
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(std::set<std::string> methods) : methods_(std::move(methods)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (info->method() == nullptr || !methods_.contains(info->method())) return nullptr;
    return new Interceptor();  // owned by the call
  }

 private:
  const std::set<std::string> methods_;  // "/package.Service/Method"
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeMalformedInterceptor(
    const std::vector<std::string>& service_names) {
  std::set<std::string> methods;
  for (const std::string& name : service_names) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
      methods.insert(StrCat("/", name, "/", service->method(i)->name()));
    }
  }
  return std::make_unique<Factory>(std::move(methods));
}

}  // namespace cairn::services
