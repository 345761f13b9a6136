// StopMatcher finds stop strings in a stream of text, whatever the pieces in which it arrives.
//
// Text comes back as soon as it can no longer be part of a stop string: what is held back is the
// longest end of the text so far that begins some stop string. The match that ends first wins (of
// those that end together, the longest); it and everything after it are dropped. Feeding byte by
// byte gives the same text as feeding all at once. Time is linear: each byte costs amortised
// O(number of stop strings) (Knuth-Morris-Pratt).
//
// Threads: thread-compatible.
#ifndef CAIRN_ENGINE_SAMPLING_STOP_MATCHER_H_
#define CAIRN_ENGINE_SAMPLING_STOP_MATCHER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::engine {

class StopMatcher {
 public:
  // `include_match`: the match itself is text too. REQUIRES: no stop string is empty.
  explicit StopMatcher(const std::vector<std::string>& stops, bool include_match = false);

  // Takes the next piece and returns the text that is now safe to show. After a match it returns
  // "".
  std::string Feed(std::string_view text);
  // The end of the text: returns what was held back ("" after a match).
  std::string Flush();

  bool matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> failure;  // [text.size()], longest proper border of text[0..i]
    size_t state = 0;             // bytes of `text` that the stream ends with
  };
  // Advances by one byte; returns whether the whole pattern has been seen.
  static bool Advance(Pattern& pattern, char byte);

  const bool include_match_;
  std::vector<Pattern> patterns_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SAMPLING_STOP_MATCHER_H_
