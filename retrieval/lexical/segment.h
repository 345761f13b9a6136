// LexicalSegment: an immutable inverted index over chunks 0..num_chunks-1.
//
// Terms are sorted; each has one postings list, ascending by chunk, cut into blocks of kBlockSize.
// A block knows its last chunk, its largest tf and its smallest length: tf / (tf + norm(length)) of
// no posting in it can exceed the value at those two, whatever the average length is at query time.
//
// Threads: immutable after Build or Merge, so thread-safe.
#ifndef CAIRN_RETRIEVAL_LEXICAL_SEGMENT_H_
#define CAIRN_RETRIEVAL_LEXICAL_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "retrieval/bitmap.h"
#include "retrieval/lexical/document_terms.h"

namespace cairn::retrieval {

struct PostingBlock {
  uint32_t last_chunk;
  uint32_t min_length;
  uint16_t max_tf;
};

// Views into a segment; valid while it lives.
struct PostingsList {
  std::span<const uint32_t> chunks;
  std::span<const uint16_t> tfs;
  std::span<const PostingBlock>
      blocks;  // block i covers postings [i * kBlockSize, (i + 1) * kBlockSize)
};

class LexicalSegment {
 public:
  static constexpr size_t kBlockSize = 128;

  uint32_t num_chunks() const { return static_cast<uint32_t>(lengths_.size()); }
  uint32_t num_terms() const { return static_cast<uint32_t>(term_begins_.size() - 1); }
  uint64_t num_postings() const { return chunks_.size(); }
  uint32_t length(uint32_t chunk) const { return lengths_[chunk]; }

  // Empty when the segment lacks the term.
  PostingsList Find(std::string_view term) const;

  std::string_view term(uint32_t i) const {
    return std::string_view(term_bytes_)
        .substr(term_begins_[i], term_begins_[i + 1] - term_begins_[i]);
  }
  PostingsList postings(uint32_t term) const;
  uint64_t MemoryBytes() const;

 private:
  friend class LexicalSegmentBuilder;
  LexicalSegment() = default;

  std::vector<uint32_t> lengths_;         // [num_chunks]
  std::string term_bytes_;                // all terms, one after another
  std::vector<uint64_t> term_begins_;     // [num_terms + 1] into term_bytes_
  std::vector<uint64_t> posting_begins_;  // [num_terms + 1] into chunks_ and tfs_
  std::vector<uint64_t> block_begins_;    // [num_terms + 1] into blocks_
  std::vector<uint32_t> chunks_;          // [num_postings]
  std::vector<uint16_t> tfs_;             // [num_postings]
  std::vector<PostingBlock> blocks_;
};

// Thread-compatible.
class LexicalSegmentBuilder {
 public:
  // Appends the chunks of a document.
  void Add(const DocumentTerms& document);
  uint32_t num_chunks() const { return static_cast<uint32_t>(lengths_.size()); }
  // Leaves the builder empty.
  std::unique_ptr<const LexicalSegment> Build();

  struct Source {
    const LexicalSegment* segment;
    const Bitmap* deleted;  // [segment->num_chunks()]; null = none
  };
  // Concatenates the live chunks of the sources, in order.
  static std::unique_ptr<const LexicalSegment> Merge(std::span<const Source> sources);

 private:
  static void Start(LexicalSegment* out);
  static void FinishTerm(std::string_view term, LexicalSegment* out);

  struct List {
    std::vector<uint32_t> chunks;
    std::vector<uint16_t> tfs;
  };
  std::vector<uint32_t> lengths_;
  std::unordered_map<std::string, List> lists_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_LEXICAL_SEGMENT_H_
