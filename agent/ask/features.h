// Features: what of a text can be compared with another text without a model: content terms,
// numbers, names, negation.
//
// Terms are Porter2 stems of words (stop words left out) and character bigrams of Han runs (a
// single character when it stands alone). Numbers are digits in canonical decimal form ("1,000.50"
// -> "1000.5"), with the value of a scale word as a second form ("1万" -> "1" or "10000"); digits
// inside identifiers ("utf8", "x86_64") are not numbers. Names are what must not be invented:
// identifiers (with digits, underscores, inner capitals or "::"), acronyms, words in backquotes,
// capitalised words inside a sentence, and every Latin word inside Chinese text. Threads: pure
// functions.
#ifndef CAIRN_AGENT_ASK_FEATURES_H_
#define CAIRN_AGENT_ASK_FEATURES_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::agent {

struct NumberFeature {
  std::string text;                // as written
  std::vector<std::string> forms;  // canonical forms, any of which may match
};

struct NameFeature {
  std::string text;  // as written
  std::vector<std::string>
      parts;  // stems, all of which must occur: "brpc::Channel" -> "brpc", "channel"
};

struct Features {
  std::vector<std::string> terms;  // distinct, in order of first use
  std::set<std::string> words;     // stems of all words, stop words too: where names are looked up
  std::vector<NumberFeature> numbers;
  std::set<std::string> number_forms;  // all forms of all numbers, number words ("three", "三") too
  std::vector<NameFeature> names;
  bool negated = false;  // holds "not", "never", "不", "没有", ...

  bool HasTerm(std::string_view term) const;
  bool HasNumber(const NumberFeature& number) const;
  bool HasName(const NameFeature& name) const;
};

Features ExtractFeatures(std::string_view text);

// "zh" when Han characters are at least as many as Latin words, else "en".
std::string_view LanguageOf(std::string_view text);

// The clauses of a sentence, split at commas, semicolons, colons and "but"-like words.
std::vector<std::string_view> SplitClauses(std::string_view sentence);

// What kind of fact a question asks for, read from its question words.
enum class AnswerKind { kAny, kNumber, kDate, kPerson };
AnswerKind AnswerKindOf(std::string_view question);

// The content of a question: its terms without question words and words that its answer need not
// repeat.
std::vector<std::string> QuestionTerms(std::string_view question);

// The question without the question words of Chinese ("bthread是什么？" -> "bthread"), for
// searching by words; the same text when there are none.
std::string WithoutQuestionWords(std::string_view question);

// What "how many X" counts, as a term; empty for other questions.
std::string CountedThing(std::string_view question);

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_FEATURES_H_
