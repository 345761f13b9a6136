// Finds out the encoding of a file and decodes it to UTF-8.
//
// In this order: a byte order mark (UTF-8, UTF-16), strict UTF-8, strict GB18030 whose characters
// are those of real Chinese text. Anything else is refused, never guessed at: wrong text is worse
// than none.
#ifndef CAIRN_RETRIEVAL_PARSE_ENCODING_H_
#define CAIRN_RETRIEVAL_PARSE_ENCODING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

struct DecodedText {
  std::string text;      // valid UTF-8 without NUL and without the byte order mark
  SourceMap map;         // text -> source
  std::string encoding;  // "utf-8", "utf-8-bom", "utf-16le", "utf-16be" or "gb18030"
};

// INVALID_ARGUMENT: BINARY_CONTENT (a NUL, or the signature of a known binary format),
// UNKNOWN_ENCODING, DOCUMENT_TOO_LARGE (the map would have more than `max_map_runs` runs).
absl::StatusOr<DecodedText> DecodeSource(std::string_view source, uint64_t max_map_runs);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_ENCODING_H_
