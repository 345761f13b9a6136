// Builds source maps run by run, and chains them.
#ifndef CAIRN_RETRIEVAL_PARSE_SOURCE_RUNS_H_
#define CAIRN_RETRIEVAL_PARSE_SOURCE_RUNS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "retrieval/types.h"

namespace cairn::retrieval {

// Runs are added in ascending order of text and source. Text without a run (a separator that we put
// in) is simply skipped.
class RunBuilder {
 public:
  // `size` bytes of text that equal the source bytes.
  void Copy(uint64_t text_begin, uint64_t source_begin, uint64_t size);
  // Text that stands for other source bytes. REQUIRES: text_size > 1 or text_size != source_size,
  // because equal sizes would claim equal bytes; larger runs of equal size are written as two that
  // say the same.
  void Replace(uint64_t text_begin, uint64_t text_size, uint64_t source_begin,
               uint64_t source_size);

  size_t size() const { return runs_.size(); }
  SourceMap Build() && { return SourceMap(std::move(runs_)); }

 private:
  std::vector<SourceRun> runs_;
};

// `outer` maps text to the middle, `inner` the middle to the source: the map of text to source.
// Linear.
SourceMap Compose(const SourceMap& outer, const SourceMap& inner);

// The map of text[text.begin, text.end), rebased to start at 0. Looks only at the runs in question
// (a map may have millions), and a run that is cut never claims equality by coincidence of sizes.
SourceMap CutMap(const SourceMap& map, Span text);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_SOURCE_RUNS_H_
