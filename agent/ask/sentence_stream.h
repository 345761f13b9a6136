// SentenceStream cuts a growing text into sentences as soon as each is complete.
//
// The pieces, put together, are the text: every piece holds the blanks before its sentence.
// Boundaries are those of common/sentences.h, decided when the first character behind the sentence
// is seen; they depend on the text, not on how it arrived. Threads: single-thread.
#ifndef CAIRN_AGENT_ASK_SENTENCE_STREAM_H_
#define CAIRN_AGENT_ASK_SENTENCE_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::agent {

class SentenceStream {
 public:
  struct Piece {
    std::string blanks;    // white space before the sentence
    std::string sentence;  // not empty
    size_t begin, end;     // of the sentence, bytes of the whole text
  };

  std::vector<Piece> Feed(std::string_view text);
  // The sentences that were still open. Blanks at the very end are dropped.
  std::vector<Piece> Finish();

 private:
  void Cut(bool at_end, std::vector<Piece>* out);

  std::string text_;      // from `base_` on
  size_t base_ = 0;       // bytes of the whole text before `text_`
  size_t committed_ = 0;  // bytes of `text_` that are out
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_SENTENCE_STREAM_H_
