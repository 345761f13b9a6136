#include "services/clients/retrieval_client.h"

#include <algorithm>
#include <utility>

#include "common/strings.h"
#include "services/retrieval/convert.h"

namespace cairn::services {
namespace {

namespace proto = ::cairn::retrieval::v1;

constexpr size_t kSourcePieceBytes = 1 << 20;

agent::Passage ToPassage(const proto::Chunk& chunk) {
  agent::Passage out;
  out.chunk_id = chunk.chunk_id();
  out.document_id = chunk.document_id();
  out.version = chunk.version();
  out.title = chunk.title();
  out.heading_path.assign(chunk.heading_path().begin(), chunk.heading_path().end());
  out.text = chunk.text();
  out.source = chunk.source().empty() ? chunk.text() : chunk.source();
  out.span_begin = chunk.span().begin();
  out.span_end = chunk.span().end();
  for (const auto& run : chunk.runs()) {
    out.runs.push_back({run.text_begin(), run.text_size(), run.source_begin(), run.source_size()});
  }
  if (out.runs.empty()) out.runs.push_back({0, out.text.size(), out.span_begin, out.text.size()});
  out.parent_id = chunk.parent_id();
  out.ordinal = chunk.ordinal();
  out.language = chunk.language();
  return out;
}

}  // namespace

absl::StatusOr<std::shared_ptr<RetrievalClient::Stub>> RetrievalClient::GetStub(
    const RequestContext& context) {
  CAIRN_RETURN_IF_ERROR(context.Check());
  CAIRN_ASSIGN_OR_RETURN(auto channel, channel_->Get(context));
  absl::MutexLock lock(&mutex_);
  if (!stub_) stub_ = proto::RetrievalService::NewStub(channel);
  return stub_;
}

absl::StatusOr<bool> SinkClient::KeepsVectors(const RequestContext& context,
                                              std::string_view collection) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, client_->GetStub(context));
  proto::ListCollectionsResponse response;
  ClientCall call(context);
  CAIRN_RETURN_IF_ERROR(call.Result(stub->ListCollections(call.get(), {}, &response)));
  for (const auto& known : response.collections()) {
    if (known.name() == collection) return known.dimension() > 0;
  }
  return true;
}

absl::StatusOr<retrieval::DocumentInfo> SinkClient::Find(const RequestContext& context,
                                                         std::string_view collection,
                                                         std::string_view document_id) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, client_->GetStub(context));
  proto::GetDocumentRequest request;
  request.set_collection(std::string(collection));
  request.set_document_id(std::string(document_id));
  proto::GetDocumentResponse response;
  ClientCall call(context);
  CAIRN_RETURN_IF_ERROR(call.Result(stub->GetDocument(call.get(), request, &response)));
  return ReadDocument(response.document(), "document");
}

absl::StatusOr<retrieval::DocumentInfo> SinkClient::Commit(
    const RequestContext& context, const retrieval::DocumentVersion& document) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, client_->GetStub(context));
  proto::CommitDocumentResponse response;
  ClientCall call(context);
  auto writer = stub->CommitDocument(call.get(), &response);
  proto::CommitDocumentRequest part;
  WriteDocument(document.info, part.mutable_header()->mutable_document());
  part.mutable_header()->set_embedder_fingerprint(document.embedder_fingerprint);
  bool open = writer->Write(part);
  const size_t dimension =
      document.chunks.empty() ? 0 : document.vectors.size() / document.chunks.size();
  for (size_t i = 0; open && i < document.chunks.size(); ++i) {
    auto* chunk = part.mutable_chunk();  // takes the place of the part before
    chunk->Clear();
    WriteChunk(document.chunks[i], chunk->mutable_chunk());
    const float* vector = document.vectors.data() + i * dimension;
    chunk->mutable_vector()->Add(vector, vector + dimension);
    open = writer->Write(part);
  }
  for (size_t begin = 0; open && begin < document.source.size(); begin += kSourcePieceBytes) {
    part.set_source(document.source.substr(begin, kSourcePieceBytes));
    open = writer->Write(part);
  }
  writer->WritesDone();
  CAIRN_RETURN_IF_ERROR(call.Result(writer->Finish()));
  return ReadDocument(response.document(), "document");
}

absl::StatusOr<int> SinkClient::Delete(const RequestContext& context, std::string_view collection,
                                       std::string_view document_id) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, client_->GetStub(context));
  proto::DeleteDocumentRequest request;
  request.set_collection(std::string(collection));
  request.set_document_id(std::string(document_id));
  proto::DeleteDocumentResponse response;
  ClientCall call(context);
  const absl::Status status = call.Result(stub->DeleteDocument(call.get(), request, &response));
  if (absl::IsNotFound(status)) return 0;
  CAIRN_RETURN_IF_ERROR(status);
  return 1;
}

absl::StatusOr<std::vector<agent::Passage>> RetrieverClient::Search(
    const RequestContext& context, const agent::SearchRequest& in) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, client_->GetStub(context));
  proto::SearchRequest request;
  request.set_collection(in.collection);
  request.set_query(in.query);
  request.set_top_k(in.top_k);
  *request.mutable_filter() = filter_;
  for (const auto& [key, value] : in.equals) {
    auto* condition = request.mutable_filter()->add_conditions();
    condition->set_key(key);
    condition->mutable_equals()->set_string_value(value);
  }
  proto::SearchResponse response;
  ClientCall call(context);
  CAIRN_RETURN_IF_ERROR(call.Result(stub->Search(call.get(), request, &response)));
  std::vector<agent::Passage> out;
  out.reserve(response.hits_size());
  for (const auto& hit : response.hits()) {
    agent::Passage passage = ToPassage(hit.chunk());
    passage.score = hit.score();
    passage.lexical_score = hit.signals().bm25();
    passage.vector_score = hit.signals().cosine();
    passage.has_rerank = hit.signals().has_rerank_logit();
    passage.rerank_score = hit.signals().rerank_logit();
    out.push_back(std::move(passage));
  }
  absl::MutexLock lock(&mutex_);
  for (const std::string& stage : response.degraded()) {
    if (std::find(degraded_.begin(), degraded_.end(), stage) == degraded_.end()) {
      degraded_.push_back(stage);
    }
  }
  return out;
}

absl::StatusOr<agent::Passage> RetrieverClient::FetchChunk(const RequestContext& context,
                                                           std::string_view collection,
                                                           std::string_view chunk_id) {
  CAIRN_ASSIGN_OR_RETURN(auto stub, client_->GetStub(context));
  proto::GetChunkRequest request;
  request.set_collection(std::string(collection));
  request.set_chunk_id(std::string(chunk_id));
  proto::GetChunkResponse response;
  ClientCall call(context);
  CAIRN_RETURN_IF_ERROR(call.Result(stub->GetChunk(call.get(), request, &response)));
  return ToPassage(response.chunk());
}

std::vector<std::string> RetrieverClient::degraded() const {
  absl::MutexLock lock(&mutex_);
  return degraded_;
}

}  // namespace cairn::services
