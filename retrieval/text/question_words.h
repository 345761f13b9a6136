// Question words of a query: they say that something is asked, not what about. Searched like any
// other word they crowd out the right passages ("bthread 是什么" finds texts that say 是什么).
#ifndef CAIRN_RETRIEVAL_TEXT_QUESTION_WORDS_H_
#define CAIRN_RETRIEVAL_TEXT_QUESTION_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

namespace cairn::retrieval {

struct SplitQuestion {
  std::string rest;                // the query with a space for each question word
  std::vector<std::string> words;  // the question words, as written, in order
};

// English words stand alone ("know-how" has none) and are not acronyms ("WHO" in a text that also
// has small letters). Chinese has no spaces: there the longest phrase counts, and words that merely
// hold its characters do not (几何, 任何).
SplitQuestion SplitQuestionWords(std::string_view query);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TEXT_QUESTION_WORDS_H_
