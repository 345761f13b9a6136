// What a reader sees: every collection, in memory and on disk, at one moment. A writer makes the
// next state out of the last one; nobody changes one that is published.
#ifndef CAIRN_RETRIEVAL_INDEX_STATE_H_
#define CAIRN_RETRIEVAL_INDEX_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "retrieval/index/segment.h"
#include "retrieval/store/records.h"
#include "retrieval/store/store.h"

namespace cairn::retrieval {

struct CollectionState {
  std::shared_ptr<const CollectionRecord> record;
  std::vector<SegmentView> segments;  // by uid, ascending
  uint64_t num_documents = 0;         // also those without chunks
  uint64_t source_bytes = 0;

  uint64_t num_chunks() const;    // live
  uint64_t total_length() const;  // of the live chunks

  // Adds a segment of new documents, then merges: the newest kMergeFactor segments of no larger
  // size class (log8 of the chunks) become one. So there are at most 7 or so of each class, and a
  // chunk is copied once per class.
  void Append(std::shared_ptr<const Segment> segment);
  // Marks the chunks of a document deleted. A segment with more than a fifth deleted is rewritten
  // without them.
  void Remove(uint64_t uid);

 private:
  void Replace(size_t begin, size_t end);  // segments [begin, end) become their merge
};

struct State {
  std::map<std::string, std::shared_ptr<const CollectionState>, std::less<>> collections;
  std::shared_ptr<const Store::Snapshot> snapshot;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_INDEX_STATE_H_
