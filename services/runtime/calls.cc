#include "services/runtime/calls.h"

namespace cairn::services {
namespace {

class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(const CallRuntime& runtime, const char* method, grpc::CallbackServerContext* context)
      : scope_(runtime, method, context) {}

  void Start(UnaryWork work) {
    absl::Status admitted = scope_.runtime().executor->Submit([this, work = std::move(work)] {
      absl::Status status = scope_.context().Check();
      if (status.ok()) status = work(scope_.context());
      Finish(scope_.Close(std::move(status)));
    });
    if (!admitted.ok()) Finish(scope_.Close(std::move(admitted)));
  }

 private:
  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

  CallScope scope_;
};

}  // namespace

grpc::ServerUnaryReactor* ServeUnary(const CallRuntime& runtime, const char* method,
                                     grpc::CallbackServerContext* context, UnaryWork work) {
  auto* call = new UnaryCall(runtime, method, context);
  call->Start(std::move(work));
  return call;
}

}  // namespace cairn::services
