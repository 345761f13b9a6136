#include "retrieval/index/state.h"

#include <bit>
#include <span>

namespace cairn::retrieval {
namespace {

constexpr size_t kMergeFactor = 8;
constexpr uint32_t kRewriteDivisor = 5;  // rewrite when deleted * 5 > all

int SizeClass(const SegmentView& view) {
  return (std::bit_width(view.live_chunks) - 1) / std::bit_width(kMergeFactor - 1);
}

}  // namespace

uint64_t CollectionState::num_chunks() const {
  uint64_t sum = 0;
  for (const SegmentView& view : segments) sum += view.live_chunks;
  return sum;
}

uint64_t CollectionState::total_length() const {
  uint64_t sum = 0;
  for (const SegmentView& view : segments) sum += view.live_length;
  return sum;
}

void CollectionState::Append(std::shared_ptr<const Segment> segment) {
  if (segment->num_chunks() == 0) return;
  segments.push_back(ViewOf(std::move(segment)));
  while (true) {
    const int newest = SizeClass(segments.back());
    size_t begin = segments.size();
    while (begin > 0 && SizeClass(segments[begin - 1]) <= newest) --begin;
    if (segments.size() - begin < kMergeFactor) return;
    Replace(begin, segments.size());
  }
}

void CollectionState::Remove(uint64_t uid) {
  for (size_t i = 0; i < segments.size(); ++i) {
    SegmentView& view = segments[i];
    const Segment::Document* document = view.segment->Find(uid);
    if (document == nullptr) continue;
    auto deleted = view.deleted != nullptr ? std::make_shared<Bitmap>(*view.deleted)
                                           : std::make_shared<Bitmap>(view.segment->num_chunks());
    for (uint32_t c = document->first_chunk; c < document->first_chunk + document->num_chunks;
         ++c) {
      deleted->Set(c);
      --view.live_chunks;
      view.live_length -= view.segment->lexical->length(c);
    }
    view.deleted = std::move(deleted);
    const uint32_t all = view.segment->num_chunks();
    if (view.live_chunks == 0) {
      segments.erase(segments.begin() + static_cast<ptrdiff_t>(i));
    } else if ((all - view.live_chunks) * uint64_t{kRewriteDivisor} > all) {
      Replace(i, i + 1);
    }
    return;
  }
}

void CollectionState::Replace(size_t begin, size_t end) {
  const std::span<const SegmentView> old(segments.data() + begin, end - begin);
  SegmentView merged = ViewOf(MergeSegments(old, record->dimension));
  segments.erase(segments.begin() + static_cast<ptrdiff_t>(begin),
                 segments.begin() + static_cast<ptrdiff_t>(end));
  segments.insert(segments.begin() + static_cast<ptrdiff_t>(begin), std::move(merged));
}

}  // namespace cairn::retrieval
