// Keys and values of the store's tables. Byte layouts: docs/formats/index.md.
//
// Keys sort as wanted: numbers are big-endian. A document version is known by its uid, which is
// never used twice, so that all its records stand together and a new version never overwrites an
// old one's. Decoders return false for anything that the encoders do not write.
#ifndef CAIRN_RETRIEVAL_STORE_RECORDS_H_
#define CAIRN_RETRIEVAL_STORE_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/lexical/document_terms.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

// Sources are cut into blocks, so that a span is read without the rest.
inline constexpr uint64_t kSourceBlockBytes = uint64_t{128} << 10;

std::string CollectionPrefix(uint32_t collection);
std::string DocumentKey(uint32_t collection, std::string_view document_id);
std::string ChunkIdKey(uint32_t collection, std::string_view chunk_id);
std::string VersionKey(uint32_t collection,
                       uint64_t uid);  // terms, vectors; prefix of the next two
std::string SourceKey(uint32_t collection, uint64_t uid, uint32_t block);
std::string ChunkKey(uint32_t collection, uint64_t uid, uint32_t ordinal);
// The uid in a key that begins as VersionKey's.
bool ParseUid(std::string_view key, uint64_t* uid);

struct CollectionRecord {
  uint32_t id = 0;   // never used twice
  std::string name;  // the key
  std::string model, fingerprint;
  uint32_t dimension = 0;
  std::string analyzer_fingerprint;
  absl::Time created_at;
};
std::string EncodeCollection(const CollectionRecord& record);
bool DecodeCollection(std::string_view name, std::string_view bytes, CollectionRecord* out);

struct DocumentRecord {
  uint64_t uid = 0;
  DocumentInfo info;
};
std::string EncodeDocument(const DocumentRecord& record);
// `collection` and `document_id` come from the key.
bool DecodeDocument(std::string_view collection, std::string_view document_id,
                    std::string_view bytes, DocumentRecord* out);

// The last version that a deleted document had: a later one of the same id goes on from there, so
// that an id and a version never mean two contents.
std::string EncodeDeleted(uint64_t last_version);
bool DecodeDeleted(std::string_view bytes, uint64_t* last_version);

// Without version and document_id, which are the document's.
std::string EncodeChunk(const Chunk& chunk);
bool DecodeChunk(std::string_view bytes, Chunk* out);

struct ChunkAddress {
  uint64_t uid = 0;
  uint32_t ordinal = 0;
};
std::string EncodeChunkAddress(const ChunkAddress& address);
bool DecodeChunkAddress(std::string_view bytes, ChunkAddress* out);

// What memory holds of a document version besides its vectors.
struct TermsRecord {
  struct ChunkEntry {
    std::string chunk_id;
    std::string language;
  };
  std::vector<ChunkEntry> chunks;
  DocumentTerms terms;
};
std::string EncodeTerms(const TermsRecord& record);
bool DecodeTerms(std::string_view bytes, TermsRecord* out);

std::string EncodeVectors(const std::vector<float>& values);
bool DecodeVectors(std::string_view bytes, std::vector<float>* out);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_STORE_RECORDS_H_
