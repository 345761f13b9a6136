#include "retrieval/lexical/segment.h"

#include <algorithm>

#include "common/check.h"

namespace cairn::retrieval {

PostingsList LexicalSegment::Find(std::string_view wanted) const {
  uint32_t low = 0, high = num_terms();
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (term(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == num_terms() || term(low) != wanted) return {};
  return postings(low);
}

PostingsList LexicalSegment::postings(uint32_t term) const {
  const uint64_t begin = posting_begins_[term], size = posting_begins_[term + 1] - begin;
  const uint64_t block = block_begins_[term], num_blocks = block_begins_[term + 1] - block;
  return {std::span(chunks_).subspan(begin, size), std::span(tfs_).subspan(begin, size),
          std::span(blocks_).subspan(block, num_blocks)};
}

uint64_t LexicalSegment::MemoryBytes() const {
  return lengths_.capacity() * sizeof(uint32_t) + term_bytes_.capacity() +
         (term_begins_.capacity() + posting_begins_.capacity() + block_begins_.capacity()) *
             sizeof(uint64_t) +
         chunks_.capacity() * sizeof(uint32_t) + tfs_.capacity() * sizeof(uint16_t) +
         blocks_.capacity() * sizeof(PostingBlock);
}

void LexicalSegmentBuilder::Add(const DocumentTerms& document) {
  const uint32_t base = num_chunks();
  lengths_.insert(lengths_.end(), document.lengths.begin(), document.lengths.end());
  for (size_t i = 0; i < document.terms.size(); ++i) {
    List& list = lists_[document.terms[i]];
    for (uint32_t p = document.begins[i]; p < document.begins[i + 1]; ++p) {
      list.chunks.push_back(base + document.postings[p].chunk);
      list.tfs.push_back(document.postings[p].tf);
    }
  }
}

void LexicalSegmentBuilder::Start(LexicalSegment* out) {
  out->term_begins_.push_back(0);
  out->posting_begins_.push_back(0);
  out->block_begins_.push_back(0);
}

// The postings appended last are those of `term`: names them and cuts them into blocks.
void LexicalSegmentBuilder::FinishTerm(std::string_view term, LexicalSegment* out) {
  out->term_bytes_.append(term);
  out->term_begins_.push_back(out->term_bytes_.size());
  const size_t end = out->chunks_.size();
  for (size_t i = out->posting_begins_.back(); i < end;) {
    const size_t block_end = std::min(i + LexicalSegment::kBlockSize, end);
    PostingBlock block{out->chunks_[block_end - 1], UINT32_MAX, 0};
    for (; i < block_end; ++i) {
      block.max_tf = std::max(block.max_tf, out->tfs_[i]);
      block.min_length = std::min(block.min_length, out->lengths_[out->chunks_[i]]);
    }
    out->blocks_.push_back(block);
  }
  out->posting_begins_.push_back(end);
  out->block_begins_.push_back(out->blocks_.size());
}

std::unique_ptr<const LexicalSegment> LexicalSegmentBuilder::Build() {
  std::unique_ptr<LexicalSegment> out(new LexicalSegment);
  out->lengths_ = std::move(lengths_);
  lengths_.clear();
  std::vector<std::pair<std::string_view, const List*>> sorted;
  sorted.reserve(lists_.size());
  for (const auto& [term, list] : lists_) sorted.emplace_back(term, &list);
  std::sort(sorted.begin(), sorted.end());
  Start(out.get());
  for (const auto& [term, list] : sorted) {
    out->chunks_.insert(out->chunks_.end(), list->chunks.begin(), list->chunks.end());
    out->tfs_.insert(out->tfs_.end(), list->tfs.begin(), list->tfs.end());
    FinishTerm(term, out.get());
  }
  lists_.clear();
  return out;
}

std::unique_ptr<const LexicalSegment> LexicalSegmentBuilder::Merge(
    std::span<const Source> sources) {
  constexpr uint32_t kDropped = UINT32_MAX;
  std::unique_ptr<LexicalSegment> out(new LexicalSegment);
  std::vector<std::vector<uint32_t>> moved(sources.size());  // old chunk -> new chunk
  for (size_t s = 0; s < sources.size(); ++s) {
    const LexicalSegment& segment = *sources[s].segment;
    moved[s].assign(segment.num_chunks(), kDropped);
    for (uint32_t chunk = 0; chunk < segment.num_chunks(); ++chunk) {
      if (sources[s].deleted != nullptr && sources[s].deleted->Get(chunk)) continue;
      moved[s][chunk] = out->num_chunks();
      out->lengths_.push_back(segment.length(chunk));
    }
  }
  Start(out.get());
  // All dictionaries are sorted: take the smallest head again and again.
  std::vector<uint32_t> heads(sources.size(), 0);
  while (true) {
    std::string_view smallest;
    bool found = false;
    for (size_t s = 0; s < sources.size(); ++s) {
      if (heads[s] == sources[s].segment->num_terms()) continue;
      const std::string_view term = sources[s].segment->term(heads[s]);
      if (!found || term < smallest) smallest = term;
      found = true;
    }
    if (!found) break;
    const size_t before = out->chunks_.size();
    for (size_t s = 0; s < sources.size(); ++s) {
      if (heads[s] == sources[s].segment->num_terms()) continue;
      if (sources[s].segment->term(heads[s]) != smallest) continue;
      const PostingsList list = sources[s].segment->postings(heads[s]++);
      for (size_t i = 0; i < list.chunks.size(); ++i) {
        const uint32_t chunk = moved[s][list.chunks[i]];
        if (chunk == kDropped) continue;
        out->chunks_.push_back(chunk);
        out->tfs_.push_back(list.tfs[i]);
      }
    }
    if (out->chunks_.size() == before) continue;  // every chunk that held it is gone
    FinishTerm(smallest, out.get());
  }
  return out;
}

}  // namespace cairn::retrieval
