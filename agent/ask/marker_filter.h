// MarkerFilter takes citation markers that the model wrote ("[2]", "[1, 3]", "【2】", "[^2]") out
// of streamed text and remembers where they stood. Markers are no evidence (small models count up,
// or copy them from the text); they are one weak signal for attribution, and never shown.
//
// A bracket directly behind an identifier inside a code span or fence ("a[1]") is text. Blanks
// around a removed marker are closed up. Works byte by byte: how the text is cut into deltas does
// not matter. Linear time, bounded look-ahead. Threads: single-thread.
#ifndef CAIRN_AGENT_ASK_MARKER_FILTER_H_
#define CAIRN_AGENT_ASK_MARKER_FILTER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::agent {

class MarkerFilter {
 public:
  struct Marker {
    size_t position;  // bytes of clean text before it
    int number;       // as written; may name no source
  };

  // Clean text that is now certain.
  std::string Feed(std::string_view delta);
  // What was held back, at the end of the text.
  std::string Finish();

  const std::vector<Marker>& markers() const { return markers_; }

 private:
  void Put(char byte, std::string* out);
  void PutText(std::string_view text, std::string* out);

  std::string held_;    // a possible marker, from its opening bracket
  std::string blanks_;  // spaces that may go away with a marker
  bool marker_before_blanks_ = false;
  bool in_code_ = false;
  size_t emitted_ = 0;
  char last_ = '\n';  // last byte put out
  std::vector<Marker> markers_;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_MARKER_FILTER_H_
