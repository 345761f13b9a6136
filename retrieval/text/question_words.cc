#include "retrieval/text/question_words.h"

#include <algorithm>
#include <array>
#include <span>

#include "common/utf8.h"

namespace cairn::retrieval {
namespace {

constexpr auto kEnglish = std::to_array<std::string_view>(
    {"did", "do", "does", "how", "what", "when", "where", "which", "who", "whom", "whose", "why"});
static_assert(std::is_sorted(kEnglish.begin(), kEnglish.end()));

// Chinese question words, simplified and traditional.
constexpr std::string_view kHan[] = {
    "什么",   "什么是",   "什么样",   "什么时候", "什么意思", "是什么意思", "是什么", "有什么",
    "为什么", "是为什么", "是什么样", "什麼",     "什麼是",   "是什麼",     "有什麼", "為什麼",
    "如何",   "是如何",   "为何",     "為何",     "何时",     "何時",       "何地",   "何种",
    "怎么",   "怎么样",   "怎么办",   "是怎么",   "怎麼",     "怎样",       "是怎样", "怎樣",
    "谁",     "是谁",     "谁是",     "誰",       "是誰",     "哪些",       "有哪些", "是哪些",
    "哪个",   "是哪个",   "哪個",     "哪里",     "哪裡",     "哪儿",       "哪种",   "哪位",
    "哪年",   "哪天",     "哪国",     "哪家",     "哪类",     "哪项",       "哪一",   "是哪一",
    "哪两",   "哪几",     "在哪",     "在哪里",   "在哪儿",   "多少",       "是多少", "有多少",
    "多久",   "几个",     "几种",     "几次",     "几年",     "几天",       "几位",   "几人",
    "几条",   "几点",     "几岁",     "几月",     "几号",     "几级",       "几时",   "几名",
    "几家",   "几台",     "几秒",     "第几",     "幾個",     "幾種",       "是否",   "能否"};
// Those only where no Han character stands before (not 申请问题) or behind (not 吗啡).
constexpr std::string_view kHanFirst[] = {"请问", "請問"};
constexpr std::string_view kHanLast[] = {"吗", "嗎", "呢"};
// Words that would seem to hold one, or to begin one with their last character.
constexpr std::string_view kHanOthers[] = {"任何", "几何", "许多", "很多", "众多", "大多", "最多"};

// Han and kana, without the punctuation beside them.
bool IsHan(char32_t c) {
  return (c >= 0x3041 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) || c >= 0x20000;
}
bool IsAsciiLower(char32_t c) { return c >= 'a' && c <= 'z'; }
bool IsAsciiUpper(char32_t c) { return c >= 'A' && c <= 'Z'; }
// Letters, and what joins them to one word.
bool IsWordChar(char32_t c) {
  return IsAsciiLower(c) || IsAsciiUpper(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '\'' || c == 0x2019 || (c >= 0xC0 && c < 0x2000);
}

bool IsEnglishQuestionWord(std::string_view word, bool has_small_letters) {
  for (const std::string_view suffix : {"'s", "\u2019s"}) {
    if (word.ends_with(suffix)) word.remove_suffix(suffix.size());
  }
  if (has_small_letters && word.size() > 1 && std::all_of(word.begin(), word.end(), IsAsciiUpper))
    return false;
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(IsAsciiUpper(c) ? c + 32 : c);
  return std::binary_search(kEnglish.begin(), kEnglish.end(), lower);
}

size_t LongestPrefix(std::string_view text, std::span<const std::string_view> words) {
  size_t longest = 0;
  for (const std::string_view word : words) {
    if (word.size() > longest && text.starts_with(word)) longest = word.size();
  }
  return longest;
}

// Bytes of the question word at the start of `text`; 0 when there is none.
size_t HanQuestionWord(std::string_view text, bool run_start) {
  size_t longest = LongestPrefix(text, kHan);
  if (run_start) longest = std::max(longest, LongestPrefix(text, kHanFirst));
  if (const size_t last = LongestPrefix(text, kHanLast); last > longest) {
    size_t length;
    if (last == text.size() || !IsHan(DecodeUtf8(text, last, &length))) longest = last;
  }
  return longest;
}

}  // namespace

SplitQuestion SplitQuestionWords(std::string_view query) {
  SplitQuestion out;
  const bool has_small_letters = std::any_of(query.begin(), query.end(), IsAsciiLower);
  const auto take = [&](std::string_view piece, bool question_word) {
    if (question_word) {
      out.words.emplace_back(piece);
      piece = " ";
    }
    out.rest.append(piece);
  };
  bool after_han = false;
  for (size_t pos = 0, end = 0; pos < query.size(); pos = end) {
    size_t length;
    const char32_t c = DecodeUtf8(query, pos, &length);
    end = pos + length;
    if (IsHan(c)) {
      const std::string_view text = query.substr(pos);
      const size_t question = HanQuestionWord(text, !after_han);
      const size_t other = LongestPrefix(text, kHanOthers);
      end = pos + std::max({length, question, other});
      take(query.substr(pos, end - pos), question > other);
    } else if (IsWordChar(c)) {
      while (end < query.size() && IsWordChar(DecodeUtf8(query, end, &length))) end += length;
      const std::string_view word = query.substr(pos, end - pos);
      take(word, IsEnglishQuestionWord(word, has_small_letters));
    } else {
      take(query.substr(pos, length), false);
    }
    after_han = IsHan(c);
  }
  return out;
}

}  // namespace cairn::retrieval
