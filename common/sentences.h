// Splits prose, lists and code into sentences, English and Chinese.
//
// Boundaries: 。！？； and their half-width forms with any closing quotes after them; . ! ?
// followed by a space and something that can begin a sentence (abbreviations, initials, decimals,
// versions and list numbers do not end one); a blank line; and a line break before a list item,
// heading, quote, table row or code fence. Inside a code fence, an indented code block and a table
// every line stands alone. A single line break inside a paragraph joins.
//
// Units: byte offsets [begin, end) into `utf8`, in order, trimmed of blanks; together they cover
// every character that is not blank. Ill-formed bytes are ordinary characters. Linear time.
#ifndef CAIRN_COMMON_SENTENCES_H_
#define CAIRN_COMMON_SENTENCES_H_

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

std::vector<std::pair<size_t, size_t>> SplitSentences(std::string_view utf8);

// White space of any script, and the characters that show nothing (zero-width space, byte order
// mark, soft hyphen).
bool IsBlank(char32_t c);

// Moves the ends of [*begin, *end) inwards past blanks; an all-blank span ends up empty.
void TrimBlanks(std::string_view utf8, size_t* begin, size_t* end);

}  // namespace cairn

#endif  // CAIRN_COMMON_SENTENCES_H_
