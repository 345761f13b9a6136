#ifndef CAIRN_RETRIEVAL_TEXT_LANGUAGE_H_
#define CAIRN_RETRIEVAL_TEXT_LANGUAGE_H_

#include <string_view>

namespace cairn::retrieval {

// The language that the scripts of `text` suggest: "zh" (Han without much kana), "en" (Latin) or ""
// (others, none). A Han character weighs as much as four Latin letters, so Chinese text full of
// English names stays Chinese.
std::string_view LanguageByScript(std::string_view text);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_TEXT_LANGUAGE_H_
