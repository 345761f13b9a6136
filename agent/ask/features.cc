#include "agent/ask/features.h"

#include <libstemmer.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/check.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

using WordSet = std::set<std::string_view>;

const WordSet kStopWords = {
    "a",       "about", "above", "after", "all",     "also",  "am",       "an",    "and",   "any",
    "are",     "as",    "at",    "be",    "been",    "being", "both",     "but",   "by",    "can",
    "could",   "did",   "do",    "does",  "doing",   "each",  "for",      "from",  "had",   "has",
    "have",    "he",    "her",   "here",  "his",     "how",   "i",        "if",    "in",    "into",
    "is",      "it",    "its",   "just",  "may",     "me",    "more",     "most",  "must",  "my",
    "no",      "nor",   "not",   "of",    "on",      "only",  "or",       "other", "our",   "out",
    "own",     "s",     "same",  "she",   "should",  "so",    "some",     "such",  "t",     "than",
    "that",    "the",   "their", "them",  "then",    "there", "these",    "they",  "this",  "those",
    "through", "to",    "too",   "under", "up",      "us",    "very",     "was",   "we",    "were",
    "what",    "when",  "where", "which", "while",   "who",   "whom",     "why",   "will",  "with",
    "would",   "yes",   "you",   "your",  "shall",   "might", "cannot",   "don",   "doesn", "isn",
    "aren",    "won",   "via",   "etc",   "however", "thus",  "therefore"};

// Stems that a question has and its answer need not.
const WordSet kQuestionWords = {
    "mean",    "explain",  "describ", "tell",     "give",    "name",     "purpos", "reason",
    "way",     "differ",   "happen",  "between",  "list",    "exampl",   "much",   "mani",
    "long",    "often",    "kind",    "type",     "sort",    "pleas",    "make",   "made",
    "get",     "want",     "know",    "question", "answer",  "work",     "use",    "need",
    "call",    "one",      "briefli", "main",     "first",   "document", "accord", "manual",
    "benefit", "advantag", "thing",   "say",      "possibl", "definit",  "caus",   "recommend",
    "default", "valu"};

constexpr std::u32string_view kHanStopChars = U"的了是吗呢吧啊么这那哪什怎之们和与或也都就及在";
const WordSet kHanStopBigrams = {
    "如何", "可以", "是否", "一个", "一些", "因为", "所以", "如果", "以及", "我们", "你们",
    "他们", "它们", "其中", "它的", "请问", "进行", "多少", "为何", "有何", "有几", "几个",
    "几种", "为什", "什么", "怎么", "怎样", "哪些", "哪个", "哪里", "主要", "介绍", "告诉",
    "说明", "解释", "区别", "作用", "原因", "意思", "默认", "叫做", "称为", "属于", "用来",
    "用于", "时候", "会有", "需要", "应该", "能够", "请说", "简述"};

// Longest first.
constexpr std::string_view kHanQuestionPhrases[] = {
    "是什么意思", "什么时候", "是什么", "为什么", "怎么样", "什么", "如何", "怎么", "怎样", "多少",
    "哪些",       "哪个",     "哪里",   "哪一",   "是否",   "请问", "默认", "谁",   "几"};

const WordSet kNegations = {"not",     "no",       "never",    "none",      "neither",
                            "nor",     "without",  "cannot",   "nothing",   "isn't",
                            "aren't",  "don't",    "doesn't",  "didn't",    "won't",
                            "can't",   "couldn't", "wouldn't", "shouldn't", "wasn't",
                            "weren't", "hasn't",   "haven't",  "mustn't",   "unable"};
// Han characters that negate, and words in which they do not.
constexpr std::u32string_view kHanNegations = U"不没无未勿";
const WordSet kHanNotNegations = {"不同", "不仅", "不过", "不断", "不少", "不但", "不管",
                                  "不论", "不只", "不止", "无论", "无非", "未来", "不如",
                                  "不妨", "差不", "只不", "要不", "不错", "不得", "无锁"};

const std::pair<std::string_view, int> kNumberWords[] = {
    {"zero", 0}, {"one", 1},     {"two", 2},    {"three", 3}, {"four", 4},
    {"five", 5}, {"six", 6},     {"seven", 7},  {"eight", 8}, {"nine", 9},
    {"ten", 10}, {"eleven", 11}, {"twelve", 12}};
constexpr std::u32string_view kHanDigits = U"零一二三四五六七八九十";

bool IsHan(char32_t c) {
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}
bool IsDigit(char32_t c) { return c >= '0' && c <= '9'; }
bool IsUpper(char32_t c) { return c >= 'A' && c <= 'Z'; }
bool IsAsciiLetter(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
// Letters of words: ASCII, Latin with accents, Greek, Cyrillic.
bool IsWordChar(char32_t c) {
  return IsDigit(c) || IsAsciiLetter(c) || c == '_' ||
         (c >= 0xC0 && c <= 0x52F && c != 0xD7 && c != 0xF7);
}
bool Contains(std::u32string_view set, char32_t c) {
  return set.find(c) != std::u32string_view::npos;
}

// Full-width ASCII becomes ASCII.
char32_t Fold(char32_t c) { return c >= 0xFF01 && c <= 0xFF5E ? c - 0xFF01 + '!' : c; }

std::string Lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (IsUpper(static_cast<unsigned char>(c))) c = static_cast<char>(c | 0x20);
  }
  return out;
}

std::string Stem(std::string_view lower) {
  struct Deleter {
    void operator()(sb_stemmer* s) const { sb_stemmer_delete(s); }
  };
  thread_local std::unique_ptr<sb_stemmer, Deleter> stemmer(sb_stemmer_new("english", "UTF_8"));
  CAIRN_CHECK(stemmer != nullptr);
  if (lower.size() > 64) return std::string(lower);
  const sb_symbol* stem =
      sb_stemmer_stem(stemmer.get(), reinterpret_cast<const sb_symbol*>(lower.data()),
                      static_cast<int>(lower.size()));
  CAIRN_CHECK(stem != nullptr);
  return {reinterpret_cast<const char*>(stem),
          static_cast<size_t>(sb_stemmer_length(stemmer.get()))};
}

// "007.50" -> "7.5".
std::string CanonicalNumber(std::string_view digits) {
  std::string out;
  for (const char c : digits) {
    if (c != ',') out += c;
  }
  if (const size_t point = out.find('.'); point != std::string::npos) {
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
  }
  const size_t first = out.find_first_not_of('0');
  if (first == std::string::npos) return "0";
  return out[first] == '.' ? "0" + out.substr(first) : out.substr(first);
}

// Multiplies a canonical number by 10^power.
std::string Scaled(std::string number, int power) {
  size_t point = number.find('.');
  if (point == std::string::npos) {
    point = number.size();
  } else {
    number.erase(point, 1);
  }
  while (number.size() < point + power) number += '0';
  number.insert(point + power, ".");
  return CanonicalNumber(number);
}

class Extractor {
 public:
  explicit Extractor(std::string_view text) {
    for (size_t pos = 0, length = 0; pos < text.size(); pos += length) {
      chars_.push_back(Fold(DecodeUtf8(text, pos, &length)));
    }
  }

  Features Run(bool chinese) {
    chinese_ = chinese;
    for (size_t i = 0; i < chars_.size();) {
      const char32_t c = chars_[i];
      if (IsHan(c)) {
        i = HanRun(i);
      } else if (IsDigit(c)) {
        i = NumberOrWord(i);
      } else if (IsWordChar(c)) {
        i = Word(i);
      } else {
        Punctuation(c);
        ++i;
      }
    }
    return std::move(out_);
  }

 private:
  char32_t At(size_t i) const { return i < chars_.size() ? chars_[i] : 0; }

  std::string Utf8(size_t begin, size_t end) const {
    std::string out;
    for (size_t i = begin; i < end; ++i) AppendUtf8(chars_[i], &out);
    return out;
  }

  void Punctuation(char32_t c) {
    if (c == '`') in_code_ = !in_code_;
    if (c == '\n') in_code_ = false;  // a stray backquote does not make the rest of the text code
    const bool keeps = c == ' ' || c == '"' || c == '\'' || c == '(' || c == '*' || c == '`' ||
                       c == ',' || c == '-' || c == '/' || c == 0x2019;
    if (!keeps) sentence_start_ = true;
  }

  void AddTerm(std::string term) {
    if (seen_.insert(term).second) out_.terms.push_back(std::move(term));
  }

  size_t HanRun(size_t begin) {
    size_t end = begin;
    while (IsHan(At(end))) ++end;
    for (size_t i = begin; i < end; ++i) {
      const std::string bigram = i + 1 < end ? Utf8(i, i + 2) : "";
      if (end - begin == 1 && !Contains(kHanStopChars, chars_[i])) AddTerm(Utf8(i, i + 1));
      if (!bigram.empty() && !Contains(kHanStopChars, chars_[i]) &&
          !Contains(kHanStopChars, chars_[i + 1]) && kHanStopBigrams.count(bigram) == 0) {
        AddTerm(bigram);
      }
      if (Contains(kHanNegations, chars_[i])) {
        const std::string before = i > begin ? Utf8(i - 1, i + 1) : "";
        if (kHanNotNegations.count(bigram) == 0 && kHanNotNegations.count(before) == 0)
          out_.negated = true;
      }
      const size_t digit = kHanDigits.find(chars_[i]);
      if (digit != std::u32string_view::npos) out_.number_forms.insert(std::to_string(digit));
      if (chars_[i] == U'两') out_.number_forms.insert("2");
    }
    sentence_start_ = false;
    return end;
  }

  size_t NumberOrWord(size_t begin) {
    size_t end = begin;
    int points = 0;
    while (IsDigit(At(end)) || ((At(end) == '.' || At(end) == ',') && IsDigit(At(end + 1)))) {
      points += At(end) == '.';
      ++end;
    }
    const bool hex = end == begin + 1 && chars_[begin] == '0' && (At(end) | 0x20) == 'x';
    if (hex || At(end) == '_') return Word(begin);
    if (points > 1) {  // a version or an address
      AddName(Utf8(begin, end));
      return end;
    }
    NumberFeature number{Utf8(begin, end), {}};
    number.forms.push_back(CanonicalNumber(number.text));
    if (const int power = ScaleAfter(end); power > 0)
      number.forms.push_back(Scaled(number.forms[0], power));
    // Sentences are analysed one by one: "2. " at the very start is the number of a list item.
    const bool list_marker = begin == 0 && (At(end) == '.' || At(end) == ')') && At(end + 1) == ' ';
    if (!list_marker) {
      out_.number_forms.insert(number.forms.begin(), number.forms.end());
      out_.numbers.push_back(std::move(number));
    }
    // The unit behind it ("ms", "GB") is a word of its own.
    return IsWordChar(At(end)) && !IsDigit(At(end)) ? Unit(end) : end;
  }

  size_t Unit(size_t begin) {
    size_t end = begin;
    while (IsWordChar(At(end))) ++end;
    const std::string unit = Lower(Utf8(begin, end));
    out_.words.insert(unit);
    AddTerm(unit);
    return end;
  }

  // The power of ten of the scale word or unit behind a number: 4 for 万, 3 for thousand.
  int ScaleAfter(size_t i) const {
    if (At(i) == ' ') ++i;
    if (At(i) == U'十') return 1;
    if (At(i) == U'百') return 2;
    if (At(i) == U'千') return 3;
    if (At(i) == U'万') return 4;
    if (At(i) == U'亿') return 8;
    size_t end = i;
    while (IsAsciiLetter(At(end))) ++end;
    const std::string word = Lower(Utf8(i, end));
    // "1 second" is also 1000 (milliseconds): models convert it when the question asks so.
    if (At(i) == U'秒' || word == "s" || word == "second" || word == "seconds") return 3;
    if (word == "hundred") return 2;
    if (word == "thousand") return 3;
    if (word == "million") return 6;
    return word == "billion" ? 9 : 0;
  }

  size_t Word(size_t begin) {
    size_t end = begin;
    while (IsWordChar(At(end)) ||
           ((At(end) == '\'' || At(end) == 0x2019) && IsAsciiLetter(At(end + 1))))
      ++end;
    if ((chars_[begin] | 0x20) == 'v' && IsDigit(At(begin + 1))) {  // "v1.2.3"
      while (At(end) == '.' && IsDigit(At(end + 1))) {
        for (++end; IsWordChar(At(end)); ++end) {
        }
      }
    }
    const std::string word = Utf8(begin, end);
    std::string lower = Lower(word);
    if (const size_t quote = lower.find("\xE2\x80\x99"); quote != std::string::npos)
      lower.replace(quote, 3, "'");
    if (kNegations.count(lower) != 0) out_.negated = true;
    if (lower.size() > 2 && lower.compare(lower.size() - 2, 2, "'s") == 0)
      lower.resize(lower.size() - 2);
    for (const auto& [name, value] : kNumberWords) {
      if (lower == name) out_.number_forms.insert(std::to_string(value));
    }
    const std::string stem = Stem(lower);
    out_.words.insert(lower);
    out_.words.insert(stem);
    AddParts(lower);
    const bool stop = kStopWords.count(lower) != 0 || kNegations.count(lower) != 0;
    if (!stop && (lower.size() > 1 || in_code_)) {
      AddTerm(stem);
      if (IsName(begin, end, word)) AddName(word);
    }
    sentence_start_ = false;
    return end;
  }

  // A text about "bthread_start" is one about "bthread".
  void AddParts(std::string_view lower) {
    for (size_t begin = 0; lower.find('_', begin) != std::string_view::npos;) {
      const size_t end = std::min(lower.find('_', begin), lower.size());
      if (end - begin >= 3) out_.words.insert(Stem(lower.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  bool IsName(size_t begin, size_t end, std::string_view word) const {
    if (word.size() < 2) return false;
    const bool qualified = (At(end) == ':' && At(end + 1) == ':' && IsWordChar(At(end + 2))) ||
                           (begin >= 2 && chars_[begin - 1] == ':' && chars_[begin - 2] == ':');
    if (in_code_ || qualified) return true;
    bool inner_upper = false, digit = false, lower = false;
    for (size_t i = 0; i < word.size(); ++i) {
      const char32_t c = static_cast<unsigned char>(word[i]);
      if (c == '_') return true;
      inner_upper |= i > 0 && IsUpper(c);
      digit |= IsDigit(c);
      lower |= c >= 'a' && c <= 'z';
    }
    if (inner_upper || (digit && (lower || IsUpper(static_cast<unsigned char>(word[0])))))
      return true;
    if (chinese_) return IsAsciiLetter(static_cast<unsigned char>(word[0]));
    return IsUpper(static_cast<unsigned char>(word[0])) && !sentence_start_;
  }

  void AddName(std::string_view text) {
    const std::string lower = Lower(text);
    out_.words.insert(lower);
    if (!names_.insert(lower).second) return;
    out_.names.push_back({std::string(text), {Stem(lower)}});
    out_.words.insert(Stem(lower));
    AddTerm(Stem(lower));
  }

  std::vector<char32_t> chars_;
  Features out_;
  std::set<std::string> seen_, names_;
  bool chinese_ = false;
  bool in_code_ = false;
  bool sentence_start_ = true;
};

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> needles) {
  return std::any_of(needles.begin(), needles.end(), [&](std::string_view needle) {
    return text.find(needle) != std::string_view::npos;
  });
}

}  // namespace

bool Features::HasTerm(std::string_view term) const {
  return std::find(terms.begin(), terms.end(), term) != terms.end();
}

bool Features::HasNumber(const NumberFeature& number) const {
  return std::any_of(number.forms.begin(), number.forms.end(),
                     [&](const std::string& form) { return number_forms.count(form) != 0; });
}

bool Features::HasName(const NameFeature& name) const {
  return std::all_of(name.parts.begin(), name.parts.end(),
                     [&](const std::string& part) { return words.count(part) != 0; });
}

Features ExtractFeatures(std::string_view text) {
  return Extractor(text).Run(LanguageOf(text) == "zh");
}

std::string_view LanguageOf(std::string_view text) {
  size_t han = 0, words = 0;
  bool in_word = false;
  for (size_t pos = 0, length = 0; pos < text.size(); pos += length) {
    const char32_t c = DecodeUtf8(text, pos, &length);
    han += IsHan(c);
    const bool letter = IsAsciiLetter(c) || (in_word && IsWordChar(c));
    words += letter && !in_word;
    in_word = letter;
  }
  return han > 0 && han >= words ? "zh" : "en";
}

std::vector<std::string_view> SplitClauses(std::string_view sentence) {
  std::vector<std::string_view> clauses;
  size_t begin = 0;
  const auto cut = [&](size_t end, size_t next) {
    if (end > begin) clauses.push_back(sentence.substr(begin, end - begin));
    begin = next;
  };
  for (size_t pos = 0, length = 0; pos < sentence.size(); pos += length) {
    const char32_t c = DecodeUtf8(sentence, pos, &length);
    if (c == 0xFF0C || c == 0xFF1B || c == 0xFF1A || c == 0x3002 || c == ';' ||
        ((c == ',' || c == ':') && pos + 1 < sentence.size() && sentence[pos + 1] == ' ')) {
      cut(pos, pos + length);
    } else if (c == ' ' && ContainsAny(sentence.substr(pos, 9), {" but ", " unless ", " while "})) {
      cut(pos, pos + length);
    }
  }
  cut(sentence.size(), sentence.size());
  return clauses;
}

AnswerKind AnswerKindOf(std::string_view question) {
  const std::string q = " " + Lower(question) + " ";
  if (ContainsAny(
          q, {"how many", "how much ", "how long ", "what percentage", "which port", "what port",
              "多少", "几个", "几种", "几次", "几秒", "几台", "多久", "端口号"})) {
    return AnswerKind::kNumber;
  }
  if (ContainsAny(q, {"what year", "which year", " when was", " when did", " when were",
                      "what date", "哪年", "哪一年", "何年", "哪天", "什么时间", "何时"})) {
    return AnswerKind::kDate;
  }
  if (ContainsAny(q, {" who is ", " who was ", " who wrote", " who founded", " who created",
                      " who invented", " whose ", " who are ", "谁"})) {
    return AnswerKind::kPerson;
  }
  return AnswerKind::kAny;
}

std::string WithoutQuestionWords(std::string_view question) {
  std::string text(question);
  for (const std::string_view phrase : kHanQuestionPhrases) {
    for (size_t at = text.find(phrase); at != std::string::npos; at = text.find(phrase, at)) {
      text.replace(at, phrase.size(), " ");
    }
  }
  return text;
}

std::vector<std::string> QuestionTerms(std::string_view question) {
  // Question words of Chinese would make bigrams with their neighbours.
  const std::string text = WithoutQuestionWords(question);
  std::vector<std::string> terms;
  for (const std::string& term : ExtractFeatures(text).terms) {
    if (kQuestionWords.count(term) == 0) terms.push_back(term);
  }
  return terms.empty() ? ExtractFeatures(question).terms : terms;
}

std::string CountedThing(std::string_view question) {
  const std::string lower = Lower(question);
  const size_t at = lower.find("how many ");
  if (at == std::string::npos) return "";
  const std::vector<std::string> terms =
      ExtractFeatures(std::string_view(lower).substr(at + 9)).terms;
  return terms.empty() ? "" : terms[0];
}

}  // namespace cairn::agent
