#include "agent/ask/word_order.h"

#include <algorithm>
#include <set>

#include "agent/ask/features.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

constexpr size_t kMaxWordsBetween = 3;

const std::set<std::string, std::less<>> kArticles = {"a", "an", "the"};
// Words of relations that hold both ways.
const std::set<std::string, std::less<>> kBothWays = {
    "and",    "or", "with", "same", "equal", "equals", "similar", "different", "vs",
    "versus", "和", "与",   "或",   "及",    "以及",   "跟",      "同",        "等于"};

bool IsHan(char32_t c) { return c >= 0x3400 && c <= 0x9FFF; }
bool IsAscii(char32_t c) { return c < 0x80; }
bool IsWordChar(char32_t c) {
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}
// What stands around words without ending a clause.
bool IsQuiet(char32_t c) { return c == ' ' || c == '`' || c == '"' || c == '*' || c == '\n'; }

bool IsLatinWord(const std::string& word) {
  return !word.empty() && IsAscii(static_cast<unsigned char>(word[0]));
}
bool SaysSomething(const std::string& word) { return !ExtractFeatures(word).terms.empty(); }

}  // namespace

std::vector<std::string> WordRow(std::string_view text) {
  std::vector<std::string> row;
  const auto run = [&](size_t pos, bool (*in_run)(char32_t)) {
    size_t length = 0;
    while (pos < text.size() && in_run(DecodeUtf8(text, pos, &length))) pos += length;
    return pos;
  };
  for (size_t pos = 0, length = 0; pos < text.size(); pos += length) {
    const char32_t c = DecodeUtf8(text, pos, &length);
    if (IsQuiet(c)) continue;
    if (!IsWordChar(c) && !IsHan(c)) {
      row.emplace_back();
      continue;
    }
    length = run(pos, IsHan(c) ? IsHan : IsWordChar) - pos;
    std::string word(text.substr(pos, length));
    for (char& letter : word) {
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter | 0x20);
    }
    if (kArticles.count(word) == 0) row.push_back(std::move(word));
  }
  return row;
}

bool ContainsRow(const std::vector<std::string>& row, const std::vector<std::string>& part) {
  return std::search(row.begin(), row.end(), part.begin(), part.end()) != row.end();
}

std::vector<OrderedPair> OrderedPairs(const std::vector<std::string>& row) {
  std::vector<OrderedPair> pairs;
  const auto is_end = [&](size_t i) { return IsLatinWord(row[i]) && SaysSomething(row[i]); };
  for (size_t i = 0; i < row.size(); ++i) {
    if (!is_end(i)) continue;
    bool says_something = false;
    for (size_t j = i + 1; j < row.size() && j - i <= kMaxWordsBetween + 1; ++j) {
      if (says_something && is_end(j) && row[i] != row[j]) {
        OrderedPair pair;
        pair.forward.assign(row.begin() + static_cast<ptrdiff_t>(i),
                            row.begin() + static_cast<ptrdiff_t>(j) + 1);
        pair.reversed = pair.forward;
        std::swap(pair.reversed.front(), pair.reversed.back());
        pairs.push_back(std::move(pair));
      }
      if (row[j].empty() || kBothWays.count(row[j]) != 0) break;
      says_something |= SaysSomething(row[j]);
    }
  }
  return pairs;
}

}  // namespace cairn::agent
