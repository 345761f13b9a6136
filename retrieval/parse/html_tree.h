// A parsed HTML tree whose memory and time are bounded, whatever the input is.
#ifndef CAIRN_RETRIEVAL_PARSE_HTML_TREE_H_
#define CAIRN_RETRIEVAL_PARSE_HTML_TREE_H_

#include <memory>
#include <string_view>

#include "common/status.h"

struct GumboInternalOutput;

namespace cairn::retrieval {

// Owns the tree; nodes point into `html`, which must outlive it.
class HtmlTree {
 public:
  // INVALID_ARGUMENT, NESTING_TOO_DEEP: more than `max_depth` elements left open, or markup so
  // tangled that the tree would take far more memory or time than pages do.
  static absl::StatusOr<std::unique_ptr<HtmlTree>> Parse(std::string_view html, int max_depth);
  ~HtmlTree();
  HtmlTree(const HtmlTree&) = delete;
  HtmlTree& operator=(const HtmlTree&) = delete;

  const GumboInternalOutput& output() const { return *output_; }

 private:
  class Arena;
  HtmlTree();
  std::unique_ptr<Arena> arena_;
  GumboInternalOutput* output_ = nullptr;  // lives in the arena
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_HTML_TREE_H_
