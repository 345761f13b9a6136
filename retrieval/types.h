// The data that travels through ingestion and retrieval. Plain structs.
//
// Offsets: `text` is UTF-8; every Span is in bytes. A source span counts bytes of the file exactly
// as it was put; slicing the source by it gives the citation's bytes.
#ifndef CAIRN_RETRIEVAL_TYPES_H_
#define CAIRN_RETRIEVAL_TYPES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace cairn::retrieval {

struct Span {
  uint64_t begin = 0;
  uint64_t end = 0;  // one past the last byte
  uint64_t size() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

// One stretch of text and the stretch of source it came from. Where the sizes are equal the bytes
// are equal too and offsets inside map one to one; elsewhere (an HTML entity, a character of
// another encoding) the run maps as a whole. Runs ascend in both coordinates; source between runs
// is markup.
struct SourceRun {
  uint64_t text_begin = 0;
  uint64_t text_size = 0;
  uint64_t source_begin = 0;
  uint64_t source_size = 0;
};

// Maps text offsets to source offsets. `runs` as in SourceRun.
class SourceMap {
 public:
  SourceMap() = default;
  explicit SourceMap(std::vector<SourceRun> runs) : runs_(std::move(runs)) {}
  // Text equals source[source_begin, source_begin + size).
  static SourceMap Identity(uint64_t source_begin, uint64_t size);

  // The smallest source span that covers the text span. REQUIRES: text.begin <= text.end <= text
  // size.
  Span ToSource(Span text) const;
  const std::vector<SourceRun>& runs() const { return runs_; }
  // Delta-coded varints, for storage and the wire.
  std::string Serialize() const;
  static bool Parse(std::string_view bytes, SourceMap* out);

 private:
  std::vector<SourceRun> runs_;
};

using MetadataValue = std::variant<std::string, int64_t, double, bool>;
using Metadata = std::map<std::string, MetadataValue>;

// A condition on one metadata key. Reserved keys: "document_id", "media_type", "title", "language".
struct Condition {
  enum class Op { kEquals, kIn, kRange };
  std::string key;
  Op op = Op::kEquals;
  std::vector<MetadataValue> values;  // kEquals: one; kIn: one or more
  std::optional<MetadataValue> low,
      high;  // kRange: inclusive bounds, either may be absent; numbers only
};
using Filter = std::vector<Condition>;  // all must hold; a document without the key does not match

struct Chunk {
  std::string chunk_id;  // f(document id, content hash, ordinal): the same input gives the same id
  std::string document_id;
  uint64_t version = 0;
  uint32_t ordinal = 0;                   // place in the document, from 0
  std::string text;                       // what is indexed and shown, UTF-8
  Span span;                              // source bytes covered
  SourceMap source_map;                   // text -> absolute source offsets
  std::vector<std::string> heading_path;  // outermost first
  std::string parent_id;    // section the chunk belongs to: f(document id, section number)
  Span parent_span;         // source bytes of that section
  int32_t token_count = 0;  // by the embedder's tokenizer, prefix and special tokens included
  std::string language;     // "en", "zh" or "" (by script)
};

struct DocumentInfo {
  std::string document_id;
  std::string collection;
  uint64_t version = 0;  // 1, 2, ...: one more at each change, also across a delete
  std::string content_sha256;
  std::string media_type;  // "text/plain", "text/markdown", "text/html"
  std::string encoding;    // of the source: "utf-8", "utf-8-bom", "gb18030"
  std::string title;
  Metadata metadata;
  uint64_t source_bytes = 0;
  uint32_t num_chunks = 0;
  absl::Time committed_at;
  uint32_t chunk_tokens = 0;  // that a chunk should hold; 0 = not recorded, made with the default
};

// One whole document version, ready to be published in a single atomic step.
struct DocumentVersion {
  DocumentInfo info;           // version and committed_at are set by the index
  std::string source;          // the original bytes
  std::vector<Chunk> chunks;   // version is set by the index
  std::vector<float> vectors;  // [chunks.size(), dimension]; empty for a lexical-only collection
  std::string embedder_fingerprint;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TYPES_H_
