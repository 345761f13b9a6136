#include "retrieval/types.h"

#include <algorithm>

#include "common/check.h"
#include "common/checked_math.h"
#include "retrieval/varint.h"

namespace cairn::retrieval {

SourceMap SourceMap::Identity(uint64_t source_begin, uint64_t size) {
  if (size == 0) return SourceMap();
  return SourceMap({{0, size, source_begin, size}});
}

Span SourceMap::ToSource(Span text) const {
  CAIRN_DCHECK(text.begin <= text.end);
  // The first run that ends after text.begin, and the first that begins at or after text.end.
  const auto first = std::partition_point(runs_.begin(), runs_.end(), [&](const SourceRun& run) {
    return run.text_begin + run.text_size <= text.begin;
  });
  const auto past = std::partition_point(
      first, runs_.end(), [&](const SourceRun& run) { return run.text_begin < text.end; });
  if (first == past) {  // nothing of the source: the point where it would stand
    if (first == runs_.begin()) {
      const uint64_t start = runs_.empty() ? 0 : runs_.front().source_begin;
      return {start, start};
    }
    const uint64_t point = std::prev(first)->source_begin + std::prev(first)->source_size;
    return {point, point};
  }
  const SourceRun& last = *std::prev(past);
  uint64_t begin = first->source_begin;
  if (first->text_size == first->source_size && text.begin > first->text_begin) {
    begin += text.begin - first->text_begin;
  }
  uint64_t end = last.source_begin + last.source_size;
  if (last.text_size == last.source_size && text.end < last.text_begin + last.text_size) {
    end = last.source_begin + (text.end - last.text_begin);
  }
  return {begin, end};
}

// Each run: text gap before it, text size, source gap before it, source size.
std::string SourceMap::Serialize() const {
  std::string out;
  uint64_t text = 0, source = 0;
  for (const SourceRun& run : runs_) {
    PutVarint(run.text_begin - text, &out);
    PutVarint(run.text_size, &out);
    PutVarint(run.source_begin - source, &out);
    PutVarint(run.source_size, &out);
    text = run.text_begin + run.text_size;
    source = run.source_begin + run.source_size;
  }
  return out;
}

bool SourceMap::Parse(std::string_view bytes, SourceMap* out) {
  std::vector<SourceRun> runs;
  uint64_t text = 0, source = 0;
  while (!bytes.empty()) {
    SourceRun run;
    uint64_t text_gap, source_gap;
    if (!TakeVarint(&bytes, &text_gap) || !TakeVarint(&bytes, &run.text_size) ||
        !TakeVarint(&bytes, &source_gap) || !TakeVarint(&bytes, &run.source_size) ||
        !CheckedAdd(text, text_gap, &run.text_begin) ||
        !CheckedAdd(run.text_begin, run.text_size, &text) ||
        !CheckedAdd(source, source_gap, &run.source_begin) ||
        !CheckedAdd(run.source_begin, run.source_size, &source)) {
      return false;
    }
    runs.push_back(run);
  }
  *out = SourceMap(std::move(runs));
  return true;
}

}  // namespace cairn::retrieval
