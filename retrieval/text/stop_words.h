#ifndef CAIRN_RETRIEVAL_TEXT_STOP_WORDS_H_
#define CAIRN_RETRIEVAL_TEXT_STOP_WORDS_H_

#include <string_view>

namespace cairn::retrieval {

// Lucene's English list: 33 words. REQUIRES: lower case.
bool IsEnglishStopWord(std::string_view word);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TEXT_STOP_WORDS_H_
