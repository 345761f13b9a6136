#include "services/retrieval/commit_upload.h"

#include <cmath>
#include <utility>

#include "common/strings.h"
#include "services/retrieval/convert.h"

namespace cairn::services {

namespace proto = ::cairn::retrieval::v1;

absl::StatusOr<retrieval::EmbedderInfo> EmbedderOfNewCollection(const RequestContext& context,
                                                                retrieval::Embedder* embedder) {
  auto info = embedder->Info(context);
  if (absl::IsNotFound(info.status())) return retrieval::EmbedderInfo{};
  return info;
}

absl::Status CommitUpload::OnMessage(const RequestContext&, proto::CommitDocumentRequest* request) {
  switch (request->part_case()) {
    case proto::CommitDocumentRequest::kHeader:
      if (has_header_) return InvalidField("header", "is sent twice");
      return AddHeader(request->header());
    case proto::CommitDocumentRequest::kChunk:
      if (!has_header_) return InvalidField("header", "must come first");
      return AddChunk(request->chunk());
    case proto::CommitDocumentRequest::kSource:
      if (!has_header_) return InvalidField("header", "must come first");
      if (document_.source.size() + request->source().size() > retrieval::kMaxSourceBytes) {
        return WithReason(absl::ResourceExhaustedError(StrCat(
                              "the source is larger than ", retrieval::kMaxSourceBytes, " bytes")),
                          "DOCUMENT_TOO_LARGE");
      }
      document_.source += request->source();
      return absl::OkStatus();
    case proto::CommitDocumentRequest::PART_NOT_SET:
      break;
  }
  return InvalidField("part", "is not set");
}

absl::Status CommitUpload::AddHeader(const proto::CommitHeader& header) {
  CAIRN_ASSIGN_OR_RETURN(document_.info, ReadDocument(header.document(), "header.document"));
  document_.embedder_fingerprint = header.embedder_fingerprint();
  has_header_ = true;
  return absl::OkStatus();
}

absl::Status CommitUpload::AddChunk(const proto::ChunkWithVector& in) {
  const std::string field = StrCat("chunk[", document_.chunks.size(), "]");
  if (document_.chunks.size() >= retrieval::kMaxChunksPerDocument) {
    return InvalidField(
        field, StrCat("a document has at most ", retrieval::kMaxChunksPerDocument, " chunks"));
  }
  CAIRN_ASSIGN_OR_RETURN(retrieval::Chunk chunk, ReadChunk(in.chunk(), field));
  if (document_.chunks.empty()) dimension_ = in.vector_size();
  if (static_cast<size_t>(in.vector_size()) != dimension_) {
    return InvalidField(field + ".vector",
                        StrCat("has ", in.vector_size(), " values, the first had ", dimension_));
  }
  for (float value : in.vector()) {
    if (!std::isfinite(value))
      return InvalidField(field + ".vector", "holds a value that is not finite");
  }
  document_.vectors.insert(document_.vectors.end(), in.vector().begin(), in.vector().end());
  document_.chunks.push_back(std::move(chunk));
  return absl::OkStatus();
}

absl::Status CommitUpload::EnsureCollection(const RequestContext& context) {
  auto collection = index_->GetCollection(document_.info.collection);
  if (absl::IsNotFound(collection.status())) {
    CAIRN_ASSIGN_OR_RETURN(const auto embedder, EmbedderOfNewCollection(context, embedder_));
    collection = index_->CreateCollection({document_.info.collection, embedder});
    if (absl::IsAlreadyExists(collection.status())) {  // somebody else was faster: as good
      collection = index_->GetCollection(document_.info.collection);
    }
  }
  CAIRN_RETURN_IF_ERROR(collection.status());
  if (collection->config.embedder.dimension == 0) {  // words only: vectors have no place here
    document_.vectors.clear();
    document_.embedder_fingerprint.clear();
  }
  return absl::OkStatus();
}

absl::Status CommitUpload::OnEnd(const RequestContext& context) {
  if (!has_header_) return InvalidField("header", "is missing");
  CAIRN_RETURN_IF_ERROR(EnsureCollection(context));
  CAIRN_ASSIGN_OR_RETURN(const retrieval::DocumentInfo info, index_->Commit(context, document_));
  WriteDocument(info, response_->mutable_document());
  return absl::OkStatus();
}

}  // namespace cairn::services
