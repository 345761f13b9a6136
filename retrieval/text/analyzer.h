// From text to index terms; the same for chunks and for queries.
//
// Each stretch of text is treated by its script, so mixed English and Chinese works:
//   Han, Hiragana, Katakana   every character (namespace "u:") and every pair of neighbours ("b:")
//   everything else           Unicode words (UAX #29), also cut at '_'; possessive 's cut; Porter2
//   stem of ASCII
//                             words ("w:")
// after NFKC case folding, which also folds full-width forms and removes default-ignorable
// characters (zero-width space, soft hyphen, BOM). English stop words are kept apart (namespace
// "s:"), not dropped: a query of nothing else falls back to them.
//
// Threads: thread-safe. Text need not be valid UTF-8; ill-formed bytes separate words.
#ifndef CAIRN_RETRIEVAL_TEXT_ANALYZER_H_
#define CAIRN_RETRIEVAL_TEXT_ANALYZER_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace cairn::retrieval {

inline constexpr size_t kMaxTermBytes = 128;  // longer words are cut there, on both sides alike

struct Term {
  std::string_view text;  // with its namespace; valid during the call only
  bool stop_word = false;
};

class Analyzer {
 public:
  // INTERNAL when ICU or the stemmer cannot be set up.
  static absl::StatusOr<std::unique_ptr<Analyzer>> Create();
  ~Analyzer();

  // Calls `sink` for each term in text order.
  void Analyze(std::string_view text, absl::FunctionRef<void(const Term&)> sink) const;

  // Changes whenever the same text might give other terms: rules, stop words, versions of ICU and
  // the stemmer.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  class Workspace;
  class WorkspacePool;
  Analyzer();
  std::unique_ptr<WorkspacePool> pool_;
  std::string fingerprint_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TEXT_ANALYZER_H_
