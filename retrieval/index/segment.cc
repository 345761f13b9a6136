#include "retrieval/index/segment.h"

#include <algorithm>

#include "common/check.h"

namespace cairn::retrieval {

const Segment::Document* Segment::Find(uint64_t uid) const {
  const auto found =
      std::lower_bound(documents.begin(), documents.end(), uid,
                       [](const Document& document, uint64_t u) { return document.uid < u; });
  return found != documents.end() && found->uid == uid ? &*found : nullptr;
}

uint64_t Segment::MemoryBytes() const {
  uint64_t bytes = lexical->MemoryBytes() + vectors.capacity() * sizeof(float) +
                   document_of.capacity() * sizeof(uint32_t) +
                   documents.capacity() * (sizeof(Document) + sizeof(DocumentInfo)) +
                   chunks.capacity() * sizeof(chunks[0]);
  for (const TermsRecord::ChunkEntry& chunk : chunks) bytes += chunk.chunk_id.capacity();
  return bytes;
}

SegmentView ViewOf(std::shared_ptr<const Segment> segment) {
  SegmentView view;
  view.live_chunks = segment->num_chunks();
  for (uint32_t i = 0; i < view.live_chunks; ++i) view.live_length += segment->lexical->length(i);
  view.segment = std::move(segment);
  return view;
}

void SegmentBuilder::Add(uint64_t uid, std::shared_ptr<const DocumentInfo> info, TermsRecord record,
                         std::span<const float> vectors) {
  CAIRN_DCHECK(segment_->documents.empty() || segment_->documents.back().uid < uid || uid == 0);
  const uint32_t count = static_cast<uint32_t>(record.chunks.size());
  segment_->document_of.insert(segment_->document_of.end(), count,
                               static_cast<uint32_t>(segment_->documents.size()));
  segment_->documents.push_back({uid, std::move(info), lexical_.num_chunks(), count});
  for (TermsRecord::ChunkEntry& chunk : record.chunks) segment_->chunks.push_back(std::move(chunk));
  segment_->vectors.insert(segment_->vectors.end(), vectors.begin(), vectors.end());
  lexical_.Add(record.terms);
}

std::unique_ptr<Segment> SegmentBuilder::Build() {
  segment_->lexical = lexical_.Build();
  std::unique_ptr<Segment> out = std::make_unique<Segment>();
  std::swap(out, segment_);
  return out;
}

std::shared_ptr<const Segment> MergeSegments(std::span<const SegmentView> views, size_t dimension) {
  auto out = std::make_shared<Segment>();
  std::vector<LexicalSegmentBuilder::Source> sources;
  for (const SegmentView& view : views) {
    const Segment& segment = *view.segment;
    sources.push_back({segment.lexical.get(), view.deleted.get()});
    for (Segment::Document document : segment.documents) {
      const uint32_t begin = document.first_chunk, end = begin + document.num_chunks;
      if (view.deleted != nullptr && view.deleted->Get(begin)) continue;  // all of it is
      out->document_of.insert(out->document_of.end(), document.num_chunks,
                              static_cast<uint32_t>(out->documents.size()));
      document.first_chunk = static_cast<uint32_t>(out->chunks.size());
      out->documents.push_back(std::move(document));
      out->chunks.insert(out->chunks.end(), segment.chunks.begin() + begin,
                         segment.chunks.begin() + end);
      if (dimension > 0) {
        out->vectors.insert(out->vectors.end(), segment.vectors.begin() + begin * dimension,
                            segment.vectors.begin() + end * dimension);
      }
    }
  }
  out->lexical = LexicalSegmentBuilder::Merge(sources);
  CAIRN_CHECK(out->lexical->num_chunks() == out->chunks.size());
  return out;
}

}  // namespace cairn::retrieval
