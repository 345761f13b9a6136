// Packing turns retrieved passages into the numbered sources of the prompt.
//
// Duplicates go (the same chunk, the same text, or mostly the same span of a document); neighbours
// of one section are merged; sources are chosen by score until the token budget is full and then
// put into document order, documents by their best score. What is left out is reported.
#ifndef CAIRN_AGENT_ASK_PACKING_H_
#define CAIRN_AGENT_ASK_PACKING_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/ask/answer.h"
#include "agent/ports.h"
#include "common/status.h"

namespace cairn::agent {

struct PackedSource {
  Source source;
  std::vector<Passage> parts;  // in document order
  std::string heading;         // "Title > Section", one line
  std::string text;            // what the prompt shows: the parts, without overlap between them
};

struct Packed {
  std::vector<PackedSource> sources;  // numbered from 1
  std::vector<LeftOut> left_out;
  int num_tokens = 0;
};

using TokenCounter = std::function<absl::StatusOr<int>(std::string_view text)>;

// "[3] Title > Section\ntext\n": one source as the prompt shows it.
std::string RenderSource(const PackedSource& source);

// `passages` best first. Errors are those of `count_tokens`.
absl::StatusOr<Packed> Pack(std::vector<Passage> passages, int token_budget,
                            const TokenCounter& count_tokens);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_PACKING_H_
