#include "retrieval/store/records.h"

#include <bit>
#include <cstring>

#include "retrieval/varint.h"

namespace cairn::retrieval {
namespace {

static_assert(std::endian::native == std::endian::little,
              "vectors and doubles are stored as they lie in memory");

template <typename T>
void PutBigEndian(T value, std::string* out) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

void PutDouble(double value, std::string* out) {
  char bytes[sizeof(double)];
  std::memcpy(bytes, &value, sizeof(double));
  out->append(bytes, sizeof(double));
}
bool TakeDouble(std::string_view* in, double* value) {
  if (in->size() < sizeof(double)) return false;
  std::memcpy(value, in->data(), sizeof(double));
  in->remove_prefix(sizeof(double));
  return true;
}

void PutTime(absl::Time time, std::string* out) {
  PutVarint(static_cast<uint64_t>(absl::ToUnixMicros(time)), out);
}
bool TakeTime(std::string_view* in, absl::Time* time) {
  uint64_t micros;
  if (!TakeVarint(in, &micros)) return false;
  *time = absl::FromUnixMicros(static_cast<int64_t>(micros));
  return true;
}

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

enum MetadataTag : uint64_t { kString = 0, kInt = 1, kDouble = 2, kFalse = 3, kTrue = 4 };

void PutMetadata(const Metadata& metadata, std::string* out) {
  PutVarint(metadata.size(), out);
  for (const auto& [key, value] : metadata) {
    PutBytes(key, out);
    if (const auto* text = std::get_if<std::string>(&value)) {
      PutVarint(kString, out);
      PutBytes(*text, out);
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      PutVarint(kInt, out);
      PutVarint(ZigZag(*integer), out);
    } else if (const auto* number = std::get_if<double>(&value)) {
      PutVarint(kDouble, out);
      PutDouble(*number, out);
    } else {
      PutVarint(std::get<bool>(value) ? kTrue : kFalse, out);
    }
  }
}

bool TakeMetadataValue(std::string_view* in, MetadataValue* value) {
  uint64_t tag;
  if (!TakeVarint(in, &tag)) return false;
  switch (tag) {
    case kString: {
      std::string text;
      if (!TakeString(in, &text)) return false;
      *value = std::move(text);
      return true;
    }
    case kInt: {
      uint64_t coded;
      if (!TakeVarint(in, &coded)) return false;
      *value = UnZigZag(coded);
      return true;
    }
    case kDouble: {
      double number;
      if (!TakeDouble(in, &number)) return false;
      *value = number;
      return true;
    }
    case kFalse:
    case kTrue:
      *value = tag == kTrue;
      return true;
    default:
      return false;
  }
}

bool TakeMetadata(std::string_view* in, Metadata* metadata) {
  uint64_t count;
  if (!TakeVarint(in, &count) || count > in->size()) return false;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key;
    MetadataValue value;
    if (!TakeString(in, &key) || !TakeMetadataValue(in, &value)) return false;
    if (!metadata->emplace(std::move(key), std::move(value)).second) return false;
  }
  return true;
}

void PutSpan(Span span, std::string* out) {
  PutVarint(span.begin, out);
  PutVarint(span.size(), out);
}
bool TakeSpan(std::string_view* in, Span* span) {
  uint64_t size;
  if (!TakeVarint(in, &span->begin) || !TakeVarint(in, &size)) return false;
  return !__builtin_add_overflow(span->begin, size, &span->end);
}

}  // namespace

std::string CollectionPrefix(uint32_t collection) {
  std::string key;
  PutBigEndian(collection, &key);
  return key;
}
std::string DocumentKey(uint32_t collection, std::string_view document_id) {
  return CollectionPrefix(collection).append(document_id);
}
std::string ChunkIdKey(uint32_t collection, std::string_view chunk_id) {
  return CollectionPrefix(collection).append(chunk_id);
}
std::string VersionKey(uint32_t collection, uint64_t uid) {
  std::string key = CollectionPrefix(collection);
  PutBigEndian(uid, &key);
  return key;
}
std::string SourceKey(uint32_t collection, uint64_t uid, uint32_t block) {
  std::string key = VersionKey(collection, uid);
  PutBigEndian(block, &key);
  return key;
}
std::string ChunkKey(uint32_t collection, uint64_t uid, uint32_t ordinal) {
  return SourceKey(collection, uid, ordinal);
}
bool ParseUid(std::string_view key, uint64_t* uid) {
  if (key.size() < sizeof(uint32_t) + sizeof(uint64_t)) return false;
  *uid = 0;
  for (size_t i = 0; i < sizeof(uint64_t); ++i) {
    *uid = *uid << 8 | static_cast<uint8_t>(key[sizeof(uint32_t) + i]);
  }
  return true;
}

std::string EncodeCollection(const CollectionRecord& record) {
  std::string out;
  PutVarint(record.id, &out);
  PutBytes(record.model, &out);
  PutBytes(record.fingerprint, &out);
  PutVarint(record.dimension, &out);
  PutBytes(record.analyzer_fingerprint, &out);
  PutTime(record.created_at, &out);
  return out;
}

bool DecodeCollection(std::string_view name, std::string_view in, CollectionRecord* out) {
  out->name = name;
  return TakeVarint(&in, &out->id) && TakeString(&in, &out->model) &&
         TakeString(&in, &out->fingerprint) && TakeVarint(&in, &out->dimension) &&
         TakeString(&in, &out->analyzer_fingerprint) && TakeTime(&in, &out->created_at) &&
         in.empty();
}

std::string EncodeDocument(const DocumentRecord& record) {
  const DocumentInfo& info = record.info;
  std::string out;
  PutVarint(record.uid, &out);
  PutVarint(info.version, &out);
  PutBytes(info.content_sha256, &out);
  PutBytes(info.media_type, &out);
  PutBytes(info.encoding, &out);
  PutBytes(info.title, &out);
  PutMetadata(info.metadata, &out);
  PutVarint(info.source_bytes, &out);
  PutVarint(info.num_chunks, &out);
  PutTime(info.committed_at, &out);
  PutVarint(info.chunk_tokens, &out);
  return out;
}

bool DecodeDocument(std::string_view collection, std::string_view document_id, std::string_view in,
                    DocumentRecord* out) {
  DocumentInfo& info = out->info;
  info.collection = collection;
  info.document_id = document_id;
  return TakeVarint(&in, &out->uid) && TakeVarint(&in, &info.version) &&
         TakeString(&in, &info.content_sha256) && TakeString(&in, &info.media_type) &&
         TakeString(&in, &info.encoding) && TakeString(&in, &info.title) &&
         TakeMetadata(&in, &info.metadata) && TakeVarint(&in, &info.source_bytes) &&
         TakeVarint(&in, &info.num_chunks) && TakeTime(&in, &info.committed_at) &&
         (in.empty() || TakeVarint(&in, &info.chunk_tokens)) && in.empty();
}

std::string EncodeDeleted(uint64_t last_version) {
  std::string out;
  PutVarint(last_version, &out);
  return out;
}
bool DecodeDeleted(std::string_view in, uint64_t* last_version) {
  return TakeVarint(&in, last_version) && in.empty();
}

std::string EncodeChunk(const Chunk& chunk) {
  std::string out;
  PutBytes(chunk.chunk_id, &out);
  PutVarint(chunk.ordinal, &out);
  PutBytes(chunk.text, &out);
  PutSpan(chunk.span, &out);
  PutBytes(chunk.source_map.Serialize(), &out);
  PutVarint(chunk.heading_path.size(), &out);
  for (const std::string& heading : chunk.heading_path) PutBytes(heading, &out);
  PutBytes(chunk.parent_id, &out);
  PutSpan(chunk.parent_span, &out);
  PutVarint(static_cast<uint32_t>(chunk.token_count), &out);
  PutBytes(chunk.language, &out);
  return out;
}

bool DecodeChunk(std::string_view in, Chunk* out) {
  std::string_view source_map;
  uint64_t num_headings;
  if (!TakeString(&in, &out->chunk_id) || !TakeVarint(&in, &out->ordinal) ||
      !TakeString(&in, &out->text) || !TakeSpan(&in, &out->span) || !TakeBytes(&in, &source_map) ||
      !SourceMap::Parse(source_map, &out->source_map) || !TakeVarint(&in, &num_headings) ||
      num_headings > in.size()) {
    return false;
  }
  out->heading_path.resize(num_headings);
  for (std::string& heading : out->heading_path) {
    if (!TakeString(&in, &heading)) return false;
  }
  return TakeString(&in, &out->parent_id) && TakeSpan(&in, &out->parent_span) &&
         TakeVarint(&in, &out->token_count) && TakeString(&in, &out->language) && in.empty();
}

std::string EncodeChunkAddress(const ChunkAddress& address) {
  std::string out;
  PutVarint(address.uid, &out);
  PutVarint(address.ordinal, &out);
  return out;
}
bool DecodeChunkAddress(std::string_view in, ChunkAddress* out) {
  return TakeVarint(&in, &out->uid) && TakeVarint(&in, &out->ordinal) && in.empty();
}

std::string EncodeTerms(const TermsRecord& record) {
  std::string out;
  PutVarint(record.chunks.size(), &out);
  for (const TermsRecord::ChunkEntry& chunk : record.chunks) {
    PutBytes(chunk.chunk_id, &out);
    PutBytes(chunk.language, &out);
  }
  return out.append(EncodeDocumentTerms(record.terms));
}

bool DecodeTerms(std::string_view in, TermsRecord* out) {
  uint64_t num_chunks;
  if (!TakeVarint(&in, &num_chunks) || num_chunks > in.size()) return false;
  out->chunks.resize(num_chunks);
  for (TermsRecord::ChunkEntry& chunk : out->chunks) {
    if (!TakeString(&in, &chunk.chunk_id) || !TakeString(&in, &chunk.language)) return false;
  }
  return DecodeDocumentTerms(in, &out->terms) && out->terms.lengths.size() == num_chunks;
}

std::string EncodeVectors(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
bool DecodeVectors(std::string_view bytes, std::vector<float>* out) {
  if (bytes.size() % sizeof(float) != 0) return false;
  out->resize(bytes.size() / sizeof(float));
  std::memcpy(out->data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace cairn::retrieval
