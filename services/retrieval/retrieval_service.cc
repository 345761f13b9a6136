#include "services/retrieval/retrieval_service.h"

#include <algorithm>
#include <utility>

#include "cairn/retrieval/v1/retrieval_service.grpc.pb.h"
#include "common/strings.h"
#include "services/retrieval/commit_upload.h"
#include "services/runtime/calls.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::retrieval::v1;

constexpr uint64_t kMaxReadBytes = 1 << 20;
constexpr size_t kMaxChunkIdBytes = 1024;

absl::Status DocumentNotFound(std::string_view document_id) {
  return WithReason(absl::NotFoundError(StrCat("no document \"", document_id, "\"")),
                    "DOCUMENT_NOT_FOUND");
}

absl::Status CheckChunkId(const std::string& id) {
  if (id.empty() || id.size() > kMaxChunkIdBytes) {
    return InvalidField("chunk_id",
                        StrCat("must be 1 to ", kMaxChunkIdBytes, " bytes, got ", id.size()));
  }
  return absl::OkStatus();
}

// The handlers, as plain functions of the index.
class Handlers {
 public:
  Handlers(const SearchDefaults& defaults, retrieval::Index* index, retrieval::Embedder* embedder,
           retrieval::Reranker* reranker)
      : defaults_(defaults), index_(index), embedder_(embedder), reranker_(reranker) {}

  absl::Status CreateCollection(const RequestContext& context,
                                const proto::CreateCollectionRequest& request,
                                proto::CreateCollectionResponse* response) const {
    if (request.name().empty()) return InvalidField("name", "must not be empty");
    CAIRN_ASSIGN_OR_RETURN(const std::string name, ReadCollection(request.name(), "name"));
    retrieval::CollectionConfig config{name, {}};
    if (!request.lexical_only()) {
      CAIRN_ASSIGN_OR_RETURN(config.embedder, EmbedderOfNewCollection(context, embedder_));
    }
    CAIRN_ASSIGN_OR_RETURN(const auto info, index_->CreateCollection(config));
    WriteCollection(info, response->mutable_collection());
    return absl::OkStatus();
  }

  absl::Status ListCollections(proto::ListCollectionsResponse* response) const {
    for (const auto& info : index_->ListCollections())
      WriteCollection(info, response->add_collections());
    return absl::OkStatus();
  }

  absl::Status DeleteCollection(const proto::DeleteCollectionRequest& request) const {
    if (request.name().empty()) return InvalidField("name", "must not be empty");
    CAIRN_ASSIGN_OR_RETURN(const std::string name, ReadCollection(request.name(), "name"));
    return index_->DeleteCollection(name);
  }

  absl::Status Search(const RequestContext& context, const proto::SearchRequest& request,
                      proto::SearchResponse* response) const {
    CAIRN_ASSIGN_OR_RETURN(retrieval::SearchQuery query, ReadSearchRequest(request, defaults_));
    CAIRN_ASSIGN_OR_RETURN(const auto collection, index_->GetCollection(query.collection));
    if (request.mode() == proto::SEARCH_MODE_UNSPECIFIED &&
        collection.config.embedder.dimension == 0) {
      query.mode = retrieval::SearchMode::kLexical;
    }
    CAIRN_ASSIGN_OR_RETURN(const auto result, index_->Search(context, query, embedder_, reranker_));
    WriteSearchResult(query, result, response);
    for (size_t i = 0; i < result.hits.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(
          FillSource(context, query.collection, result.hits[i].chunk,
                     response->mutable_hits(static_cast<int>(i))->mutable_chunk()));
    }
    return absl::OkStatus();
  }

  absl::Status GetChunk(const RequestContext& context, const proto::GetChunkRequest& request,
                        proto::GetChunkResponse* response) const {
    CAIRN_ASSIGN_OR_RETURN(const std::string collection, ReadCollection(request.collection()));
    CAIRN_RETURN_IF_ERROR(CheckChunkId(request.chunk_id()));
    CAIRN_ASSIGN_OR_RETURN(const auto chunk,
                           index_->GetChunk(context, collection, request.chunk_id()));
    WriteChunk(chunk, response->mutable_chunk());
    CAIRN_ASSIGN_OR_RETURN(const auto document,
                           index_->Find(context, collection, chunk.document_id));
    response->mutable_chunk()->set_title(document.title);
    return FillSource(context, collection, chunk, response->mutable_chunk());
  }

  absl::Status GetDocument(const RequestContext& context, const proto::GetDocumentRequest& request,
                           proto::GetDocumentResponse* response) const {
    CAIRN_ASSIGN_OR_RETURN(const std::string collection, ReadCollection(request.collection()));
    CAIRN_RETURN_IF_ERROR(CheckDocumentId(request.document_id()));
    CAIRN_ASSIGN_OR_RETURN(const auto info,
                           index_->Find(context, collection, request.document_id()));
    WriteDocument(info, response->mutable_document());
    return absl::OkStatus();
  }

  absl::Status ListDocuments(const RequestContext& context,
                             const proto::ListDocumentsRequest& request,
                             proto::ListDocumentsResponse* response) const {
    CAIRN_ASSIGN_OR_RETURN(const std::string collection, ReadCollection(request.collection()));
    CAIRN_ASSIGN_OR_RETURN(const int page_size, ReadPageSize(request.page_size()));
    CAIRN_ASSIGN_OR_RETURN(const auto filter, ReadFilter(request.filter()));
    CAIRN_ASSIGN_OR_RETURN(
        const auto page,
        index_->ListDocuments(context, collection, request.page_token(), page_size, filter));
    for (const auto& info : page.documents) WriteDocument(info, response->add_documents());
    response->set_next_page_token(page.next_page_token);
    return absl::OkStatus();
  }

  absl::Status ReadSource(const RequestContext& context, const proto::ReadSourceRequest& request,
                          proto::ReadSourceResponse* response) const {
    CAIRN_ASSIGN_OR_RETURN(const std::string collection, ReadCollection(request.collection()));
    CAIRN_RETURN_IF_ERROR(CheckDocumentId(request.document_id()));
    CAIRN_ASSIGN_OR_RETURN(const auto info,
                           index_->Find(context, collection, request.document_id()));
    if (request.version() != 0 && request.version() != info.version) {
      return WithReason(
          absl::NotFoundError(StrCat("version ", request.version(), " of \"", info.document_id,
                                     "\" is not the current one, ", info.version)),
          "VERSION_RETIRED");
    }
    retrieval::Span span{0, std::min(info.source_bytes, kMaxReadBytes)};
    if (request.has_span()) span = {request.span().begin(), request.span().end()};
    if (span.begin > span.end || span.end > info.source_bytes) {
      return InvalidField("span",
                          StrCat("[", span.begin, ", ", span.end, ") is not inside the source of ",
                                 info.source_bytes, " bytes"));
    }
    if (span.size() > kMaxReadBytes) {
      return InvalidField("span", StrCat("at most ", kMaxReadBytes, " bytes, got ", span.size()));
    }
    // The version found above: a document replaced meanwhile is an error, not a mix.
    CAIRN_ASSIGN_OR_RETURN(
        *response->mutable_data(),
        index_->ReadSource(context, collection, info.document_id, info.version, span));
    response->set_version(info.version);
    response->set_total_bytes(info.source_bytes);
    return absl::OkStatus();
  }

  absl::Status DeleteDocument(const RequestContext& context,
                              const proto::DeleteDocumentRequest& request) const {
    CAIRN_ASSIGN_OR_RETURN(const std::string collection, ReadCollection(request.collection()));
    CAIRN_RETURN_IF_ERROR(CheckDocumentId(request.document_id()));
    CAIRN_ASSIGN_OR_RETURN(const int deleted,
                           index_->Delete(context, collection, request.document_id()));
    return deleted > 0 ? absl::OkStatus() : DocumentNotFound(request.document_id());
  }

  std::unique_ptr<CommitUpload> Commit(proto::CommitDocumentResponse* response) const {
    return std::make_unique<CommitUpload>(index_, embedder_, response);
  }

 private:
  // The original bytes of a chunk whose text is not them. A version replaced since the search has
  // lost its bytes: the hit is then given without them, and a citation of it cannot be made.
  absl::Status FillSource(const RequestContext& context, const std::string& collection,
                          const retrieval::Chunk& chunk, proto::Chunk* out) const {
    if (TextIsSource(chunk)) return absl::OkStatus();
    auto source =
        index_->ReadSource(context, collection, chunk.document_id, chunk.version, chunk.span);
    if (absl::IsNotFound(source.status())) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(source.status());
    if (*source != chunk.text) out->set_source(*std::move(source));
    return absl::OkStatus();
  }

  const SearchDefaults defaults_;
  retrieval::Index* index_;
  retrieval::Embedder* embedder_;
  retrieval::Reranker* reranker_;
};

// One unary method: NAME(context, request, response) { EXPRESSION }, with `c` the RequestContext.
#define UNARY(name, expression)                                                             \
  grpc::ServerUnaryReactor* name(grpc::CallbackServerContext* context,                      \
                                 const proto::name##Request* request,                       \
                                 proto::name##Response* response) override {                \
    return ServeUnary(runtime_, "cairn.retrieval.v1.RetrievalService/" #name, context,      \
                      [this, request, response]([[maybe_unused]] const RequestContext& c) { \
                        (void)request, (void)response;                                      \
                        return handlers_.expression;                                        \
                      });                                                                   \
  }

class Service final : public proto::RetrievalService::CallbackService {
 public:
  Service(const CallRuntime& runtime, Handlers handlers)
      : runtime_(runtime), handlers_(std::move(handlers)) {}

 private:
  UNARY(CreateCollection, CreateCollection(c, *request, response))
  UNARY(ListCollections, ListCollections(response))
  UNARY(DeleteCollection, DeleteCollection(*request))
  UNARY(Search, Search(c, *request, response))
  UNARY(GetChunk, GetChunk(c, *request, response))
  UNARY(GetDocument, GetDocument(c, *request, response))
  UNARY(ListDocuments, ListDocuments(c, *request, response))
  UNARY(ReadSource, ReadSource(c, *request, response))
  UNARY(DeleteDocument, DeleteDocument(c, *request))

  grpc::ServerReadReactor<proto::CommitDocumentRequest>* CommitDocument(
      grpc::CallbackServerContext* context, proto::CommitDocumentResponse* response) override {
    return ServeUpload<proto::CommitDocumentRequest>(
        runtime_, "cairn.retrieval.v1.RetrievalService/CommitDocument", context,
        handlers_.Commit(response));
  }

  const CallRuntime& runtime_;
  const Handlers handlers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeRetrievalService(const CallRuntime& runtime,
                                                    const SearchDefaults& defaults,
                                                    retrieval::Index* index,
                                                    retrieval::Embedder* embedder,
                                                    retrieval::Reranker* reranker) {
  return std::make_unique<Service>(runtime, Handlers(defaults, index, embedder, reranker));
}

}  // namespace cairn::services
