#include "retrieval/text/stop_words.h"

#include <algorithm>
#include <array>

namespace cairn::retrieval {
namespace {

constexpr auto kWords = std::to_array<std::string_view>(
    {"a",   "an",    "and",  "are",   "as",    "at",   "be",   "but", "by",  "for",  "if",
     "in",  "into",  "is",   "it",    "no",    "not",  "of",   "on",  "or",  "such", "that",
     "the", "their", "then", "there", "these", "they", "this", "to",  "was", "will", "with"});
static_assert(std::is_sorted(kWords.begin(), kWords.end()));

}  // namespace

bool IsEnglishStopWord(std::string_view word) {
  return std::binary_search(kWords.begin(), kWords.end(), word);
}

}  // namespace cairn::retrieval
