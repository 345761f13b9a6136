#include "retrieval/ingest/pipeline.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/file.h"
#include "common/strings.h"
#include "retrieval/chunk/chunker.h"
#include "retrieval/ingest/vector_file.h"
#include "retrieval/parse/parse.h"

namespace cairn::retrieval {
namespace {

// Fewer vectors than texts, NaN or a zero vector would make a document that is silently not found.
absl::Status CheckVectors(std::span<const float> vectors, size_t texts, int dimension) {
  if (vectors.size() != texts * static_cast<size_t>(dimension)) {
    return WithReason(
        absl::InternalError(StrCat("the embedder returned ", vectors.size(), " numbers for ", texts,
                                   " texts of dimension ", dimension)),
        "BAD_EMBEDDING");
  }
  for (size_t i = 0; i < texts; ++i) {
    double norm = 0;
    for (const float x : vectors.subspan(i * static_cast<size_t>(dimension), dimension)) {
      norm += double{x} * x;
    }
    if (!std::isfinite(norm) || norm < 1e-12) {
      return WithReason(
          absl::InternalError("the embedder returned a vector that is zero or not finite"),
          "BAD_EMBEDDING");
    }
  }
  return absl::OkStatus();
}

class Pipeline {
 public:
  Pipeline(const RequestContext& context, const StoredJob& stored, const JobStore& store,
           const IngestOptions& options, Embedder* embedder, DocumentSink* sink,
           const PipelineEvents& events)
      : context_(context),
        stored_(stored),
        job_(stored.job),
        store_(store),
        options_(options),
        embedder_(embedder),
        sink_(sink),
        events_(events) {}

  absl::StatusOr<PipelineResult> Run() {
    events_.on_progress(JobStage::kParsing, 0, 0);
    CAIRN_RETURN_IF_ERROR(context_.Check());
    CAIRN_RETURN_IF_ERROR(ReadSource());
    uint64_t base_version = 0;
    const absl::StatusOr<DocumentInfo> existing =
        sink_->Find(context_, job_.collection, job_.document_id);
    if (existing.ok()) {
      base_version = existing->version;
      if (existing->content_sha256 == job_.sha256 && existing->metadata == job_.metadata &&
          existing->media_type == document_.info.media_type &&
          (existing->chunk_tokens > 0 ? existing->chunk_tokens : DefaultTokens()) ==
              ChunkTokens()) {
        return AlreadyThere(*existing);
      }
    } else if (!absl::IsNotFound(existing.status())) {
      return existing.status();
    }
    CAIRN_ASSIGN_OR_RETURN(const EmbedderInfo embedder, embedder_->Info(context_));
    if (embedder.max_tokens <= 0) return absl::InternalError("the embedder has no window");
    CAIRN_ASSIGN_OR_RETURN(const bool keeps_vectors,
                           sink_->KeepsVectors(context_, job_.collection));
    CAIRN_RETURN_IF_ERROR(ParseAndChunk(embedder));
    // Dimension 0: there is no embedder. A collection that wants vectors then refuses the commit.
    if (keeps_vectors && embedder.dimension > 0) {
      document_.embedder_fingerprint = embedder.fingerprint;
      CAIRN_RETURN_IF_ERROR(Embed(embedder));
    }
    events_.on_progress(JobStage::kCommitting, NumChunks(), NumChunks());
    CAIRN_RETURN_IF_ERROR(context_.Check());
    CAIRN_RETURN_IF_ERROR(events_.before_commit(base_version));
    const RequestContext commit =
        RequestContext(CancelSource(), absl::Now() + options_.commit_timeout, context_.identity());
    CAIRN_ASSIGN_OR_RETURN(const DocumentInfo info, sink_->Commit(commit, document_));
    return PipelineResult{base_version == 0 ? JobOutcome::kCreated : JobOutcome::kReplaced,
                          info.version};
  }

 private:
  uint32_t NumChunks() const { return static_cast<uint32_t>(document_.chunks.size()); }
  uint32_t DefaultTokens() const { return static_cast<uint32_t>(options_.target_tokens); }
  uint32_t ChunkTokens() const {
    return job_.chunk_tokens > 0 ? static_cast<uint32_t>(job_.chunk_tokens) : DefaultTokens();
  }

  absl::Status ReadSource() {
    CAIRN_ASSIGN_OR_RETURN(document_.source,
                           ReadFile(store_.SourcePath(job_.id), options_.max_source_bytes));
    if (Sha256Hex(document_.source) != job_.sha256) {
      return WithReason(absl::DataLossError("the spooled source is not what was put"), "DATA_LOSS");
    }
    CAIRN_ASSIGN_OR_RETURN(document_.info.media_type,
                           ResolveMediaType(job_.media_type, job_.document_id, document_.source));
    events_.on_media_type(document_.info.media_type);
    return absl::OkStatus();
  }

  // The sink has this very version: by an earlier put, or by this job before the process died.
  absl::StatusOr<PipelineResult> AlreadyThere(const DocumentInfo& existing) const {
    PipelineResult result{JobOutcome::kUnchanged, existing.version};
    if (stored_.commit_begun && existing.version > stored_.base_version) {
      result.outcome = stored_.base_version == 0 ? JobOutcome::kCreated : JobOutcome::kReplaced;
    }
    return result;
  }

  absl::Status ParseAndChunk(const EmbedderInfo& embedder) {
    CAIRN_ASSIGN_OR_RETURN(
        const ParsedDocument parsed,
        ParseDocument(document_.source, document_.info.media_type, options_.parse));
    events_.on_progress(JobStage::kChunking, 0, 0);
    CAIRN_RETURN_IF_ERROR(context_.Check());
    ChunkOptions chunking;
    chunking.target_tokens = static_cast<int>(ChunkTokens());
    chunking.max_tokens = embedder.max_tokens;
    chunking.max_chunks = options_.max_chunks;
    const CountTokensFunction count = [this](std::span<const std::string_view> texts) {
      return embedder_->CountTokens(context_, texts);
    };
    CAIRN_ASSIGN_OR_RETURN(document_.chunks,
                           ChunkDocument(parsed, job_.document_id, job_.sha256, count, chunking));
    DocumentInfo& info = document_.info;
    info.document_id = job_.document_id;
    info.collection = job_.collection;
    info.content_sha256 = job_.sha256;
    info.encoding = parsed.encoding;
    info.title = parsed.title;
    info.metadata = job_.metadata;
    info.source_bytes = document_.source.size();
    info.num_chunks = NumChunks();
    info.chunk_tokens = ChunkTokens();
    return absl::OkStatus();
  }

  absl::Status Embed(const EmbedderInfo& embedder) {
    const size_t total = document_.chunks.size();
    std::vector<std::string> texts;
    std::string key = StrCat(embedder.fingerprint, "\n");
    for (const Chunk& chunk : document_.chunks) {
      texts.push_back(EmbeddingText(chunk, document_.info.title));
      StrAppend(&key, texts.back().size(), ":", texts.back());
    }
    std::vector<float>& vectors = document_.vectors;
    CAIRN_ASSIGN_OR_RETURN(
        const std::unique_ptr<VectorFile> file,
        VectorFile::Open(store_.VectorsPath(job_.id), key, embedder.dimension, &vectors));
    key = {};
    const size_t dimension = static_cast<size_t>(embedder.dimension);
    const size_t batch_size = static_cast<size_t>(std::max(1, options_.embed_batch_size));
    for (size_t done = vectors.size() / dimension;; done = vectors.size() / dimension) {
      events_.on_progress(JobStage::kEmbedding, static_cast<uint32_t>(done), NumChunks());
      if (done >= total) return absl::OkStatus();
      CAIRN_RETURN_IF_ERROR(context_.Check());
      const size_t end = std::min(total, done + batch_size);
      const std::vector<std::string_view> batch(texts.begin() + static_cast<ptrdiff_t>(done),
                                                texts.begin() + static_cast<ptrdiff_t>(end));
      CAIRN_ASSIGN_OR_RETURN(const std::vector<float> fresh,
                             embedder_->EmbedPassages(context_, batch));
      CAIRN_RETURN_IF_ERROR(CheckVectors(fresh, batch.size(), embedder.dimension));
      CAIRN_RETURN_IF_ERROR(file->Append(fresh));
      vectors.insert(vectors.end(), fresh.begin(), fresh.end());
    }
  }

  const RequestContext& context_;
  const StoredJob& stored_;
  const Job& job_;
  const JobStore& store_;
  const IngestOptions& options_;
  Embedder* const embedder_;
  DocumentSink* const sink_;
  const PipelineEvents& events_;
  DocumentVersion document_;
};

}  // namespace

absl::StatusOr<PipelineResult> RunPipeline(const RequestContext& context, const StoredJob& job,
                                           const JobStore& store, const IngestOptions& options,
                                           Embedder* embedder, DocumentSink* sink,
                                           const PipelineEvents& events) {
  return Pipeline(context, job, store, options, embedder, sink, events).Run();
}

}  // namespace cairn::retrieval
