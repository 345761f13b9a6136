#include "services/runtime/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/support/server_callback.h"

namespace cairn::services {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

struct V1 {
  using Service = grpc::reflection::v1::ServerReflection::CallbackService;
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  using Response = grpc::reflection::v1::ServerReflectionResponse;
};
struct V1Alpha {
  using Service = grpc::reflection::v1alpha::ServerReflection::CallbackService;
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;
};

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

// The file and everything it imports, each once, importers first.
template <typename Response>
void AddFiles(const FileDescriptor* file, std::set<const FileDescriptor*>* seen,
              Response* response) {
  if (!seen->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(
      proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFiles(file->dependency(i), seen, response);
}

template <typename Response>
void SetError(grpc::StatusCode code, const std::string& message, Response* response) {
  response->mutable_error_response()->set_error_code(code);
  response->mutable_error_response()->set_error_message(message);
}

template <typename Response>
void SetFile(const FileDescriptor* file, const std::string& what, Response* response) {
  std::set<const FileDescriptor*> seen;
  if (file == nullptr) return SetError(grpc::StatusCode::NOT_FOUND, "not found: " + what, response);
  AddFiles(file, &seen, response);
}

template <typename Response>
void SetExtensionNumbers(const std::string& type, Response* response) {
  const auto* descriptor = Pool().FindMessageTypeByName(type);
  if (descriptor == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND, "not found: " + type, response);
  }
  std::vector<const google::protobuf::FieldDescriptor*> extensions;
  Pool().FindAllExtensions(descriptor, &extensions);
  auto* out = response->mutable_all_extension_numbers_response();
  out->set_base_type_name(type);
  for (const auto* extension : extensions) out->add_extension_number(extension->number());
}

template <typename Request, typename Response>
void Answer(const std::vector<std::string>& services, const Request& request, Response* response) {
  response->set_valid_host(request.host());
  *response->mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      return SetFile(Pool().FindFileByName(request.file_by_filename()), request.file_by_filename(),
                     response);
    case Request::kFileContainingSymbol:
      return SetFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                     request.file_containing_symbol(), response);
    case Request::kFileContainingExtension: {
      const auto& wanted = request.file_containing_extension();
      const auto* type = Pool().FindMessageTypeByName(wanted.containing_type());
      const auto* extension =
          type == nullptr ? nullptr : Pool().FindExtensionByNumber(type, wanted.extension_number());
      return SetFile(extension == nullptr ? nullptr : extension->file(), wanted.containing_type(),
                     response);
    }
    case Request::kAllExtensionNumbersOfType:
      return SetExtensionNumbers(request.all_extension_numbers_of_type(), response);
    case Request::kListServices:
      for (const std::string& name : services) {
        response->mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case Request::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  SetError(grpc::StatusCode::INVALID_ARGUMENT, "message_request is not set", response);
}

template <typename V>
class Session final : public grpc::ServerBidiReactor<typename V::Request, typename V::Response> {
 public:
  Session(std::shared_ptr<const std::vector<std::string>> services, DrainList* drain)
      : services_(std::move(services)), drain_(drain) {}
  ~Session() override { drain_->Remove(drain_id_); }

  void Start(std::shared_ptr<Session> self) {
    this->StartRead(&request_);
    drain_id_ = drain_->Add([weak = std::weak_ptr<Session>(self)] {
      if (auto live = weak.lock()) {
        live->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
      }
    });
    self_ = std::move(self);
  }

  void End(const grpc::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(ended_, true)) return;
    }
    this->Finish(status);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    response_.Clear();
    Answer(*services_, request_, &response_);
    // Under the lock so that a write never starts after Finish; it completes on another thread.
    absl::MutexLock lock(&mutex_);
    if (!ended_) this->StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return End(grpc::Status::CANCELLED);
    absl::MutexLock lock(&mutex_);
    if (!ended_) this->StartRead(&request_);
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override { std::exchange(self_, nullptr).reset(); }

  std::shared_ptr<const std::vector<std::string>> services_;
  DrainList* const drain_;
  uint64_t drain_id_ = 0;
  std::shared_ptr<Session> self_;  // gRPC's reference
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  typename V::Request request_;
  typename V::Response response_;
};

template <typename V>
class ReflectionService final : public V::Service {
 public:
  ReflectionService(std::shared_ptr<const std::vector<std::string>> services, DrainList* drain)
      : services_(std::move(services)), drain_(drain) {}

  grpc::ServerBidiReactor<typename V::Request, typename V::Response>* ServerReflectionInfo(
      grpc::CallbackServerContext*) override {
    auto session = std::make_shared<Session<V>>(services_, drain_);
    session->Start(session);
    return session.get();
  }

 private:
  std::shared_ptr<const std::vector<std::string>> services_;
  DrainList* drain_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeReflectionServices(
    std::vector<std::string> service_names, DrainList* drain) {
  service_names.push_back(grpc::reflection::v1::ServerReflection::service_full_name());
  service_names.push_back(grpc::reflection::v1alpha::ServerReflection::service_full_name());
  auto services = std::make_shared<const std::vector<std::string>>(std::move(service_names));
  std::vector<std::unique_ptr<grpc::Service>> out;
  out.push_back(std::make_unique<ReflectionService<V1>>(services, drain));
  out.push_back(std::make_unique<ReflectionService<V1Alpha>>(services, drain));
  return out;
}

}  // namespace cairn::services
