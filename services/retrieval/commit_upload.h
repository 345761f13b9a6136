// CommitUpload gathers one CommitDocument stream and publishes it: header, chunks, source.
#ifndef CAIRN_SERVICES_RETRIEVAL_COMMIT_UPLOAD_H_
#define CAIRN_SERVICES_RETRIEVAL_COMMIT_UPLOAD_H_

#include "cairn/retrieval/v1/retrieval_service.pb.h"
#include "retrieval/index/index.h"
#include "services/runtime/calls.h"

namespace cairn::services {

// The vector space of a new collection: the embedder's, or none (dimension 0) when the inference
// role serves no embedder at all. An embedder that is only away for now is an error: a collection
// without vectors made by accident would stay so.
absl::StatusOr<retrieval::EmbedderInfo> EmbedderOfNewCollection(const RequestContext& context,
                                                                retrieval::Embedder* embedder);

class CommitUpload final : public Upload<retrieval::v1::CommitDocumentRequest> {
 public:
  CommitUpload(retrieval::Index* index, retrieval::Embedder* embedder,
               retrieval::v1::CommitDocumentResponse* response)
      : index_(index), embedder_(embedder), response_(response) {}

  absl::Status OnMessage(const RequestContext& context,
                         retrieval::v1::CommitDocumentRequest* request) override;
  absl::Status OnEnd(const RequestContext& context) override;

 private:
  absl::Status AddHeader(const retrieval::v1::CommitHeader& header);
  absl::Status AddChunk(const retrieval::v1::ChunkWithVector& chunk);
  // Creates the document's collection when there is none, and drops vectors that it does not keep.
  absl::Status EnsureCollection(const RequestContext& context);

  retrieval::Index* index_;
  retrieval::Embedder* embedder_;
  retrieval::v1::CommitDocumentResponse* response_;
  bool has_header_ = false;
  size_t dimension_ = 0;  // of the first vector
  retrieval::DocumentVersion document_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_RETRIEVAL_COMMIT_UPLOAD_H_
