// The parser of each media type, over decoded text. ParseDocument chooses and checks.
#ifndef CAIRN_RETRIEVAL_PARSE_PARSERS_H_
#define CAIRN_RETRIEVAL_PARSE_PARSERS_H_

#include <string_view>
#include <vector>

#include "common/status.h"
#include "retrieval/parse/document.h"
#include "retrieval/parse/encoding.h"
#include "retrieval/parse/parse.h"

namespace cairn::retrieval {

// Each fills text, map (to the source), blocks and title.
absl::StatusOr<ParsedDocument> ParsePlainText(DecodedText decoded);
absl::StatusOr<ParsedDocument> ParseMarkdown(DecodedText decoded, const ParseLimits& limits);
absl::StatusOr<ParsedDocument> ParseHtml(DecodedText decoded, const ParseLimits& limits);

// Makes `*span` begin at the start of its first line that is not blank (so that indentation stays)
// and end after its last character that is not blank. False when all of it is blank.
bool TrimToLines(std::string_view text, Span* span);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_PARSERS_H_
