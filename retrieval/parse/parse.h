// From the bytes of a file to a ParsedDocument.
//
// Threads: pure functions, thread-safe. Errors: INVALID_ARGUMENT with one of the reasons below.
// Never crashes and never takes more than memory linear in the source, whatever the bytes are.
#ifndef CAIRN_RETRIEVAL_PARSE_PARSE_H_
#define CAIRN_RETRIEVAL_PARSE_PARSE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "retrieval/parse/document.h"

namespace cairn::retrieval {

// Reasons of refused files.
inline constexpr char kReasonBinary[] = "BINARY_CONTENT";
inline constexpr char kReasonEncoding[] = "UNKNOWN_ENCODING";
inline constexpr char kReasonMediaType[] = "UNSUPPORTED_MEDIA_TYPE";
inline constexpr char kReasonTooLarge[] = "DOCUMENT_TOO_LARGE";
inline constexpr char kReasonTooDeep[] = "NESTING_TOO_DEEP";
inline constexpr char kReasonEmpty[] = "EMPTY_DOCUMENT";

struct ParseLimits {
  uint64_t max_source_bytes = uint64_t{64} << 20;
  // A tree of HTML takes up to 32 times its source in memory.
  uint64_t max_html_bytes = uint64_t{16} << 20;
  // Elements open at once in HTML and containers in Markdown. Browsers flatten at 512.
  int max_depth = 1000;
  // Pieces that the source map may have; each costs 32 bytes. One a character in other encodings
  // than UTF-8.
  uint64_t max_map_runs = uint64_t{4} << 20;
};

// "text/plain", "text/markdown" or "text/html". A declared type wins (its parameters are ignored,
// known aliases are accepted, anything else is refused); else the extension of `name` decides; else
// the bytes do.
absl::StatusOr<std::string> ResolveMediaType(std::string_view declared, std::string_view name,
                                             std::string_view source);

// `media_type` is one that ResolveMediaType returns. A file without any visible text is
// EMPTY_DOCUMENT.
absl::StatusOr<ParsedDocument> ParseDocument(std::string_view source, std::string_view media_type,
                                             const ParseLimits& limits = {});

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_PARSE_PARSE_H_
