// Segment: an immutable part of a collection in memory: postings, vectors, and which chunk is
// whose.
//
// Chunks of a document are neighbours, documents ascend by uid. Threads: immutable, so thread-safe.
#ifndef CAIRN_RETRIEVAL_INDEX_SEGMENT_H_
#define CAIRN_RETRIEVAL_INDEX_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "retrieval/bitmap.h"
#include "retrieval/lexical/segment.h"
#include "retrieval/store/records.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

struct Segment {
  struct Document {
    uint64_t uid = 0;
    std::shared_ptr<const DocumentInfo> info;
    uint32_t first_chunk = 0;
    uint32_t num_chunks = 0;
  };
  std::vector<Document> documents;              // by uid, ascending
  std::vector<uint32_t> document_of;            // [num_chunks] index into documents
  std::vector<TermsRecord::ChunkEntry> chunks;  // [num_chunks]
  std::unique_ptr<const LexicalSegment> lexical;
  std::vector<float>
      vectors;  // [num_chunks, dimension], unit length; empty in a lexical-only collection

  uint32_t num_chunks() const { return lexical->num_chunks(); }
  // Null when the document is not here.
  const Document* Find(uint64_t uid) const;
  uint64_t MemoryBytes() const;
};

// A segment as one snapshot sees it.
struct SegmentView {
  std::shared_ptr<const Segment> segment;
  std::shared_ptr<const Bitmap> deleted;  // by chunk; null = none
  uint32_t live_chunks = 0;
  uint64_t live_length = 0;  // terms in the live chunks
};
SegmentView ViewOf(std::shared_ptr<const Segment> segment);

// Thread-compatible.
class SegmentBuilder {
 public:
  // REQUIRES: uids ascend; vectors are [chunks, dimension] or empty.
  void Add(uint64_t uid, std::shared_ptr<const DocumentInfo> info, TermsRecord record,
           std::span<const float> vectors);
  uint32_t num_chunks() const { return lexical_.num_chunks(); }
  // Leaves the builder empty.
  std::unique_ptr<Segment> Build();

 private:
  std::unique_ptr<Segment> segment_ = std::make_unique<Segment>();
  LexicalSegmentBuilder lexical_;
};

// The live chunks of neighbouring views, in order, as one segment.
std::shared_ptr<const Segment> MergeSegments(std::span<const SegmentView> views, size_t dimension);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_SEGMENT_H_
