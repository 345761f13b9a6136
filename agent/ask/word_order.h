// Word order tells who does what: "A calls B" has the words of "B calls A".
#ifndef CAIRN_AGENT_ASK_WORD_ORDER_H_
#define CAIRN_AGENT_ASK_WORD_ORDER_H_

#include <string>
#include <string_view>
#include <vector>

namespace cairn::agent {

// A text as a row of words for ContainsRow: Latin words in lower case without articles, runs of Han
// characters, and "" where a clause ends.
std::vector<std::string> WordRow(std::string_view text);
bool ContainsRow(const std::vector<std::string>& row, const std::vector<std::string>& part);

// "x does y" with what it would be the other way round. Only two Latin words close together count,
// with the same words between them that say something: "is called by" is not "calls", "and" or
// "same as" say the same both ways, and Han runs hold no word boundaries.
struct OrderedPair {
  std::vector<std::string> forward, reversed;
};
std::vector<OrderedPair> OrderedPairs(const std::vector<std::string>& row);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_WORD_ORDER_H_
