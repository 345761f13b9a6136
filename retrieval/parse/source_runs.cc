#include "retrieval/parse/source_runs.h"

#include <algorithm>

#include "common/check.h"

namespace cairn::retrieval {

void RunBuilder::Copy(uint64_t text_begin, uint64_t source_begin, uint64_t size) {
  if (size == 0) return;
  if (!runs_.empty()) {
    SourceRun& last = runs_.back();
    if (last.text_size == last.source_size && last.text_begin + last.text_size == text_begin &&
        last.source_begin + last.source_size == source_begin) {
      last.text_size += size;
      last.source_size += size;
      return;
    }
  }
  runs_.push_back({text_begin, size, source_begin, size});
}

void RunBuilder::Replace(uint64_t text_begin, uint64_t text_size, uint64_t source_begin,
                         uint64_t source_size) {
  if (text_size == 0) return;
  if (text_size != source_size) {
    runs_.push_back({text_begin, text_size, source_begin, source_size});
    return;
  }
  CAIRN_CHECK(text_size > 1);
  runs_.push_back({text_begin, text_size - 1, source_begin, source_size});
  runs_.push_back({text_begin + text_size - 1, 1, source_begin + source_size, 0});
}

SourceMap Compose(const SourceMap& outer, const SourceMap& inner) {
  RunBuilder out;
  const std::vector<SourceRun>& middle = inner.runs();
  auto next = middle.begin();  // the first inner run that ends after the current place
  for (const SourceRun& run : outer.runs()) {
    const uint64_t begin = run.source_begin, end = run.source_begin + run.source_size;
    while (next != middle.end() && next->text_begin + next->text_size <= begin) ++next;
    if (run.text_size != run.source_size) {
      const Span source = inner.ToSource({begin, end});
      if (run.text_size == 1 && source.size() == 1) continue;  // cannot be told from a copy
      out.Replace(run.text_begin, run.text_size, source.begin, source.size());
      continue;
    }
    for (auto it = next; it != middle.end() && it->text_begin < end; ++it) {
      const uint64_t from = std::max(begin, it->text_begin);
      const uint64_t to = std::min(end, it->text_begin + it->text_size);
      const uint64_t text = run.text_begin + (from - begin);
      if (it->text_size == it->source_size) {
        out.Copy(text, it->source_begin + (from - it->text_begin), to - from);
      } else if (!(to - from == 1 && it->source_size == 1)) {
        out.Replace(text, to - from, it->source_begin, it->source_size);
      }
    }
  }
  return std::move(out).Build();
}

SourceMap CutMap(const SourceMap& map, Span text) {
  const std::vector<SourceRun>& runs = map.runs();
  auto it = std::partition_point(runs.begin(), runs.end(), [&](const SourceRun& run) {
    return run.text_begin + run.text_size <= text.begin;
  });
  RunBuilder out;
  for (; it != runs.end() && it->text_begin < text.end; ++it) {
    const uint64_t begin = std::max(it->text_begin, text.begin);
    const uint64_t end = std::min(it->text_begin + it->text_size, text.end);
    if (it->text_size == it->source_size) {
      out.Copy(begin - text.begin, it->source_begin + (begin - it->text_begin), end - begin);
    } else if (end - begin > 1 || it->source_size != 1) {
      out.Replace(begin - text.begin, end - begin, it->source_begin, it->source_size);
    }
  }
  return std::move(out).Build();
}

}  // namespace cairn::retrieval
