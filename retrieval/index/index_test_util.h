// Documents, fakes and folders for the tests of the index.
#ifndef CAIRN_RETRIEVAL_INDEX_INDEX_TEST_UTIL_H_
#define CAIRN_RETRIEVAL_INDEX_INDEX_TEST_UTIL_H_

#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/file.h"
#include "common/strings.h"
#include "retrieval/index/index.h"

namespace cairn::retrieval {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "cairn_index_XXXXXX").string();
    path_ = mkdtemp(name.data()) != nullptr ? name : "";
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A document whose source is the texts, a line each; chunk i is line i.
inline DocumentVersion MakeDocument(std::string_view collection, std::string_view document_id,
                                    const std::vector<std::string>& texts, Metadata metadata = {}) {
  DocumentVersion document;
  document.info.collection = collection;
  document.info.document_id = document_id;
  document.info.media_type = "text/plain";
  document.info.encoding = "utf-8";
  document.info.metadata = std::move(metadata);
  for (const std::string& text : texts) {
    Chunk& chunk = document.chunks.emplace_back();
    chunk.document_id = document_id;
    chunk.ordinal = static_cast<uint32_t>(document.chunks.size() - 1);
    chunk.chunk_id = StrCat(document_id, "#", chunk.ordinal);
    chunk.text = text;
    chunk.span = {document.source.size(), document.source.size() + text.size()};
    chunk.source_map = SourceMap::Identity(chunk.span.begin, text.size());
    chunk.parent_span = chunk.span;
    chunk.token_count = 1;
    chunk.language = "en";
    document.source.append(text).append("\n");
  }
  document.info.content_sha256 = Sha256Hex(document.source);
  return document;
}

// Deterministic vectors from the bytes of a text.
class FakeEmbedder : public Embedder {
 public:
  explicit FakeEmbedder(int dimension, std::string fingerprint = "fake")
      : info_{"fake", fingerprint, dimension, 512} {}

  std::vector<float> Vector(std::string_view text) const {
    std::vector<float> out(static_cast<size_t>(info_.dimension));
    uint64_t state = std::hash<std::string_view>()(text) | 1;
    double sum = 0;
    for (float& v : out) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<float>(static_cast<int32_t>(state >> 32)) / 2147483648.0f;
      sum += v * v;
    }
    for (float& v : out) v = static_cast<float>(v / std::sqrt(sum));
    return out;
  }
  // Fills in the vectors of a document.
  DocumentVersion Embed(DocumentVersion document) const {
    for (const Chunk& chunk : document.chunks) {
      const std::vector<float> v = Vector(chunk.text);
      document.vectors.insert(document.vectors.end(), v.begin(), v.end());
    }
    document.embedder_fingerprint = info_.fingerprint;
    return document;
  }

  absl::StatusOr<EmbedderInfo> Info(const RequestContext&) override { return info_; }
  absl::StatusOr<std::vector<float>> EmbedPassages(
      const RequestContext&, std::span<const std::string_view> texts) override {
    std::vector<float> out;
    for (const std::string_view text : texts) {
      const std::vector<float> v = Vector(text);
      out.insert(out.end(), v.begin(), v.end());
    }
    return out;
  }
  absl::StatusOr<std::vector<float>> EmbedQuery(const RequestContext&,
                                                std::string_view text) override {
    if (!failure.ok()) return failure;
    return Vector(text);
  }
  absl::StatusOr<std::vector<int>> CountTokens(const RequestContext&,
                                               std::span<const std::string_view> texts) override {
    return std::vector<int>(texts.size(), 1);
  }

  absl::Status failure;  // what EmbedQuery answers when not OK

 private:
  EmbedderInfo info_;
};

inline std::unique_ptr<Index> OpenIndex(const std::string& dir, bool sync = false) {
  IndexOptions options;
  options.sync = sync;
  absl::StatusOr<std::unique_ptr<Index>> index = Index::Open(dir, options);
  return index.ok() ? std::move(*index) : nullptr;
}

inline CollectionConfig LexicalCollection(std::string_view name) { return {std::string(name), {}}; }

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_INDEX_TEST_UTIL_H_
