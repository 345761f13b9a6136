#include "retrieval/index/document_check.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "common/file.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/index/index.h"
#include "retrieval/query/filter.h"
#include "retrieval/query/validate.h"

namespace cairn::retrieval {
namespace {

constexpr size_t kMaxCollectionNameBytes = 64;
constexpr size_t kMaxTitleBytes = 4096;
constexpr size_t kMaxMediaTypeBytes = 256;
constexpr size_t kMaxMetadataValueBytes = 64 << 10;
constexpr size_t kMaxHeadings = 64;

bool HasControlCharacter(std::string_view text) {
  for (size_t i = 0, length = 0; i < text.size(); i += length) {
    const char32_t c = DecodeUtf8(text, i, &length);
    if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return true;
  }
  return false;
}

absl::Status CheckText(std::string_view field, std::string_view text, size_t most) {
  if (text.size() > most) {
    return InvalidField(field, StrCat("at most ", most, " bytes, not ", text.size()));
  }
  if (!IsValidUtf8(text)) return InvalidField(field, "is not valid UTF-8");
  return absl::OkStatus();
}

absl::Status CheckId(std::string_view field, std::string_view id) {
  if (id.empty()) return InvalidField(field, "is empty");
  CAIRN_RETURN_IF_ERROR(CheckText(field, id, kMaxDocumentIdBytes));
  if (HasControlCharacter(id)) return InvalidField(field, "holds a control character");
  return absl::OkStatus();
}

absl::Status CheckMetadata(const Metadata& metadata) {
  if (metadata.size() > kMaxMetadataKeys) {
    return InvalidField("metadata",
                        StrCat("at most ", kMaxMetadataKeys, " keys, not ", metadata.size()));
  }
  for (const auto& [key, value] : metadata) {
    if (key.empty()) return InvalidField("metadata", "a key is empty");
    CAIRN_RETURN_IF_ERROR(CheckText("metadata.key", key, kMaxMetadataKeyBytes));
    if (const auto* text = std::get_if<std::string>(&value)) {
      CAIRN_RETURN_IF_ERROR(CheckText(StrCat("metadata.", key), *text, kMaxMetadataValueBytes));
    }
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && std::isnan(*number))
      return InvalidField(StrCat("metadata.", key), "is NaN");
  }
  return absl::OkStatus();
}

absl::Status CheckSpan(std::string_view field, Span span, uint64_t size) {
  if (span.begin <= span.end && span.end <= size) return absl::OkStatus();
  return InvalidField(field,
                      StrCat("[", span.begin, ", ", span.end, ") is not inside ", size, " bytes"));
}

absl::Status CheckChunk(const DocumentVersion& document, size_t i) {
  const Chunk& chunk = document.chunks[i];
  const std::string field = StrCat("chunks[", i, "]");
  CAIRN_RETURN_IF_ERROR(CheckId(StrCat(field, ".chunk_id"), chunk.chunk_id));
  if (chunk.document_id != document.info.document_id) {
    return InvalidField(StrCat(field, ".document_id"), "is another document's");
  }
  if (chunk.ordinal != i)
    return InvalidField(StrCat(field, ".ordinal"), StrCat("is ", chunk.ordinal));
  CAIRN_RETURN_IF_ERROR(CheckText(StrCat(field, ".text"), chunk.text, kMaxChunkBytes));
  if (IsBlank(chunk.text)) return InvalidField(StrCat(field, ".text"), "is blank");
  CAIRN_RETURN_IF_ERROR(CheckSpan(StrCat(field, ".span"), chunk.span, document.source.size()));
  CAIRN_RETURN_IF_ERROR(
      CheckSpan(StrCat(field, ".parent_span"), chunk.parent_span, document.source.size()));
  if (chunk.heading_path.size() > kMaxHeadings)
    return InvalidField(StrCat(field, ".heading_path"), "is too deep");
  for (const std::string& heading : chunk.heading_path) {
    CAIRN_RETURN_IF_ERROR(CheckText(StrCat(field, ".heading_path"), heading, kMaxChunkBytes));
  }
  if (!chunk.parent_id.empty())
    CAIRN_RETURN_IF_ERROR(CheckId(StrCat(field, ".parent_id"), chunk.parent_id));
  if (chunk.token_count < 0) return InvalidField(StrCat(field, ".token_count"), "is negative");
  CAIRN_RETURN_IF_ERROR(CheckText(StrCat(field, ".language"), chunk.language, 16));
  uint64_t text = 0, source = 0;
  for (const SourceRun& run : chunk.source_map.runs()) {
    const bool inside = run.text_begin >= text && run.text_size <= chunk.text.size() &&
                        run.text_begin <= chunk.text.size() - run.text_size &&
                        run.source_begin >= source && run.source_size <= document.source.size() &&
                        run.source_begin <= document.source.size() - run.source_size;
    if (!inside) return InvalidField(StrCat(field, ".source_map"), "leaves the text or the source");
    text = run.text_begin + run.text_size;
    source = run.source_begin + run.source_size;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCollectionName(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= kMaxCollectionNameBytes && plain(name[0]) &&
                    std::all_of(name.begin(), name.end(),
                                [&](char c) { return plain(c) || c == '_' || c == '-'; });
  if (good) return absl::OkStatus();
  return InvalidField("collection", "must match [a-z0-9][a-z0-9_-]{0,63}");
}

absl::Status CheckDocumentId(std::string_view document_id) {
  return CheckId("document_id", document_id);
}

absl::Status CheckDocument(const DocumentVersion& document) {
  const DocumentInfo& info = document.info;
  CAIRN_RETURN_IF_ERROR(CheckCollectionName(info.collection));
  CAIRN_RETURN_IF_ERROR(CheckDocumentId(info.document_id));
  CAIRN_RETURN_IF_ERROR(CheckText("title", info.title, kMaxTitleBytes));
  CAIRN_RETURN_IF_ERROR(CheckText("media_type", info.media_type, kMaxMediaTypeBytes));
  CAIRN_RETURN_IF_ERROR(CheckText("encoding", info.encoding, kMaxMediaTypeBytes));
  CAIRN_RETURN_IF_ERROR(CheckMetadata(info.metadata));
  if (document.source.size() > kMaxSourceBytes) {
    return InvalidField(
        "source", StrCat("at most ", kMaxSourceBytes, " bytes, not ", document.source.size()));
  }
  if (document.chunks.size() > kMaxChunksPerDocument) {
    return InvalidField(
        "chunks", StrCat("at most ", kMaxChunksPerDocument, ", not ", document.chunks.size()));
  }
  if (info.content_sha256 != Sha256Hex(document.source)) {
    return InvalidField("content_sha256", "is not the SHA-256 of the source in lower-case hex");
  }
  std::unordered_set<std::string_view> ids;
  for (size_t i = 0; i < document.chunks.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(CheckChunk(document, i));
    if (!ids.insert(document.chunks[i].chunk_id).second) {
      return InvalidField(StrCat("chunks[", i, "].chunk_id"), "occurs twice");
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn::retrieval
