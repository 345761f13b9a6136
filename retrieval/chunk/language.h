// The language of a text, by its script.
#ifndef CAIRN_RETRIEVAL_CHUNK_LANGUAGE_H_
#define CAIRN_RETRIEVAL_CHUNK_LANGUAGE_H_

#include <string>
#include <string_view>

namespace cairn::retrieval {

// "zh" when Han characters are at least a quarter of Han characters and Latin words together
// (Chinese technical prose is full of English names), "en" when there are Latin words otherwise, ""
// for neither. Kana or Hangul: "".
std::string LanguageOf(std::string_view utf8);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_CHUNK_LANGUAGE_H_
