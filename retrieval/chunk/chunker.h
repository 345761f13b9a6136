// Cuts a parsed document into chunks along its structure: sections, then blocks, then sentences,
// then words.
//
// - A chunk never crosses a heading; the heading's own line opens its section's first chunk.
// Headings with
//   nothing under them but a deeper heading open that section's first chunk too.
// - Neighbours in one section are merged up to the target. Code blocks stay whole while they fit;
// tables are cut
//   between rows, and the chunks after the first carry the header row as the last element of
//   heading_path.
// - Chunks are in order, do not overlap, and hold every character of the text that is not blank.
// None begins or ends
//   inside a grapheme cluster, save where one cluster alone exceeds the embedder's window.
// - The same document gives the same chunks and ids, always.
#ifndef CAIRN_RETRIEVAL_CHUNK_CHUNKER_H_
#define CAIRN_RETRIEVAL_CHUNK_CHUNKER_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "retrieval/parse/document.h"
#include "retrieval/types.h"

namespace cairn::retrieval {

struct ChunkOptions {
  // Tokens of a chunk's text that merging aims at. Larger: fewer vectors, blunter citations.
  int target_tokens = 256;
  // The embedder's window, prefix and special tokens included; EmbeddingText of every chunk fits
  // it.
  int max_tokens = 512;
  // A document with more chunks than this is refused (INVALID_ARGUMENT, DOCUMENT_TOO_LARGE).
  size_t max_chunks = 100'000;
};

// Tokens of each text as a passage, prefix and special tokens included: Embedder::CountTokens. It
// is called with batches, about four times a document plus once for each few hundred pieces.
using CountTokensFunction =
    std::function<absl::StatusOr<std::vector<int>>(std::span<const std::string_view> texts)>;

// Chunks of `document`, without `version`. `document_id` and `content_sha256` go into the ids.
absl::StatusOr<std::vector<Chunk>> ChunkDocument(const ParsedDocument& document,
                                                 std::string_view document_id,
                                                 std::string_view content_sha256,
                                                 const CountTokensFunction& count_tokens,
                                                 const ChunkOptions& options = {});

// What is embedded for a chunk: title and heading path (cut to a fixed number of bytes), then the
// text.
std::string EmbeddingText(const Chunk& chunk, std::string_view title);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_CHUNK_CHUNKER_H_
