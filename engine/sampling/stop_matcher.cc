#include "engine/sampling/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace cairn::engine {

StopMatcher::StopMatcher(const std::vector<std::string>& stops, bool include_match)
    : include_match_(include_match) {
  for (const std::string& stop : stops) {
    CAIRN_CHECK(!stop.empty());
    Pattern pattern{stop, std::vector<size_t>(stop.size(), 0)};
    for (size_t i = 1, border = 0; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border]) border = pattern.failure[border - 1];
      if (stop[i] == stop[border]) ++border;
      pattern.failure[i] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

bool StopMatcher::Advance(Pattern& pattern, char byte) {
  while (pattern.state > 0 && byte != pattern.text[pattern.state]) {
    pattern.state = pattern.failure[pattern.state - 1];
  }
  if (byte == pattern.text[pattern.state]) ++pattern.state;
  return pattern.state == pattern.text.size();
}

std::string StopMatcher::Feed(std::string_view text) {
  if (matched_) return "";
  for (size_t i = 0; i < text.size(); ++i) {
    size_t match = 0;
    for (Pattern& pattern : patterns_) {
      if (Advance(pattern, text[i])) match = std::max(match, pattern.text.size());
    }
    if (match > 0) {
      matched_ = true;
      held_.append(text.substr(0, i + 1));
      // A match began at most `match` bytes ago, and nothing of it has been shown: it was held
      // back.
      if (!include_match_) held_.resize(held_.size() - match);
      return std::exchange(held_, "");
    }
  }
  held_.append(text);
  size_t hold = 0;
  for (const Pattern& pattern : patterns_) hold = std::max(hold, pattern.state);
  std::string safe = held_.substr(0, held_.size() - hold);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopMatcher::Flush() { return std::exchange(held_, ""); }

}  // namespace cairn::engine
