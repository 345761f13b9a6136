#include "retrieval/text/analyzer.h"

#include <libstemmer.h>
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/uversion.h>

#include <mutex>
#include <vector>

#include "common/check.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/text/ascii_words.h"
#include "retrieval/text/stop_words.h"

namespace cairn::retrieval {
namespace {

using Sink = absl::FunctionRef<void(const Term&)>;

bool IsAscii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

bool IsAsciiSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Scripts written without spaces whose characters are searched singly and in pairs.
bool IsCjk(UChar32 c) {
  if (c < 0x2E80) return false;
  if (c >= 0x4E00 && c <= 0x9FFF) return true;
  if (!u_isalpha(c) && c != 0x3007) return false;  // 3007: ideographic zero
  UErrorCode error = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(c, &error);
  return script == USCRIPT_HAN || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ||
         c == 0x30FC;  // prolonged sound mark, script Common
}

}  // namespace

// What one thread needs while it analyses: neither the stemmer nor a break iterator may be shared.
class Analyzer::Workspace {
 public:
  static absl::StatusOr<std::unique_ptr<Workspace>> Create();
  ~Workspace() { sb_stemmer_delete(stemmer_); }

  void Analyze(std::string_view text, Sink sink);

 private:
  Workspace() = default;
  void Piece(std::string_view piece, Sink sink);
  void Cjk(const icu::UnicodeString& text, Sink sink);
  void UnicodeWords(const icu::UnicodeString& text, Sink sink);
  void Word(std::string_view folded, Sink sink);

  sb_stemmer* stemmer_ = nullptr;
  std::unique_ptr<icu::BreakIterator> words_;
  const icu::Normalizer2* folding_ = nullptr;  // owned by ICU
  std::string lower_, term_;
};

absl::StatusOr<std::unique_ptr<Analyzer::Workspace>> Analyzer::Workspace::Create() {
  std::unique_ptr<Workspace> workspace(new Workspace);
  workspace->stemmer_ = sb_stemmer_new("english", "UTF_8");
  if (workspace->stemmer_ == nullptr) return absl::InternalError("stemmer: no English");
  UErrorCode error = U_ZERO_ERROR;
  workspace->words_.reset(icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), error));
  workspace->folding_ = icu::Normalizer2::getNFKCCasefoldInstance(error);
  if (U_FAILURE(error)) return absl::InternalError(StrCat("ICU: ", u_errorName(error)));
  return workspace;
}

void Analyzer::Workspace::Analyze(std::string_view text, Sink sink) {
  // ASCII white space always ends a word, and nothing composes across it.
  size_t i = 0;
  while (i < text.size()) {
    if (IsAsciiSpace(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && !IsAsciiSpace(text[i])) ++i;
    Piece(text.substr(begin, i - begin), sink);
  }
}

void Analyzer::Workspace::Piece(std::string_view piece, Sink sink) {
  if (IsAscii(piece)) {
    AsciiWords(piece, [&](std::string_view word) {
      lower_.assign(word);
      for (char& c : lower_) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      Word(lower_, sink);
    });
    return;
  }
  UErrorCode error = U_ZERO_ERROR;
  icu::UnicodeString folded = folding_->normalize(
      icu::UnicodeString::fromUTF8({piece.data(), static_cast<int32_t>(piece.size())}), error);
  if (U_FAILURE(error)) return;  // out of memory is the only cause
  folded.findAndReplace(icu::UnicodeString(UChar32{0x2019}), icu::UnicodeString(u'\''));
  // Runs of one kind.
  int32_t begin = 0;
  while (begin < folded.length()) {
    const bool cjk = IsCjk(folded.char32At(begin));
    int32_t end = begin;
    while (end < folded.length() && IsCjk(folded.char32At(end)) == cjk) {
      end = folded.moveIndex32(end, 1);
    }
    const icu::UnicodeString run = folded.tempSubStringBetween(begin, end);
    if (cjk) {
      Cjk(run, sink);
    } else {
      UnicodeWords(run, sink);
    }
    begin = end;
  }
}

void Analyzer::Workspace::Cjk(const icu::UnicodeString& text, Sink sink) {
  char32_t previous = 0;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const char32_t c = static_cast<char32_t>(text.char32At(i));
    if (previous != 0) {
      term_.assign("b:");
      AppendUtf8(previous, &term_);
      AppendUtf8(c, &term_);
      sink({term_});
    }
    term_.assign("u:");
    AppendUtf8(c, &term_);
    sink({term_});
    previous = c;
  }
}

void Analyzer::Workspace::UnicodeWords(const icu::UnicodeString& text, Sink sink) {
  std::string utf8;
  text.toUTF8String(utf8);
  if (IsAscii(utf8)) {
    AsciiWords(utf8, [&](std::string_view word) { Word(word, sink); });
    return;
  }
  words_->setText(text);
  int32_t begin = words_->first();
  for (int32_t end = words_->next(); end != icu::BreakIterator::DONE;
       begin = end, end = words_->next()) {
    if (words_->getRuleStatus() < UBRK_WORD_NUMBER) continue;  // spaces and punctuation
    utf8.clear();
    text.tempSubStringBetween(begin, end).toUTF8String(utf8);
    std::string_view rest = utf8;
    while (!rest.empty()) {
      const size_t cut = std::min(rest.find('_'), rest.size());
      if (cut > 0) Word(rest.substr(0, cut), sink);
      rest.remove_prefix(std::min(cut + 1, rest.size()));
    }
  }
}

void Analyzer::Workspace::Word(std::string_view folded, Sink sink) {
  if (folded.size() > 2 && folded.ends_with("'s")) folded.remove_suffix(2);
  folded = folded.substr(0, Utf8Floor(folded, kMaxTermBytes - 2));
  if (IsEnglishStopWord(folded)) {
    term_.assign("s:").append(folded);
    sink({term_, true});
    return;
  }
  if (IsAscii(folded)) {
    const sb_symbol* stem =
        sb_stemmer_stem(stemmer_, reinterpret_cast<const sb_symbol*>(folded.data()),
                        static_cast<int>(folded.size()));
    if (stem != nullptr) {  // null: out of memory; the word itself then
      folded = {reinterpret_cast<const char*>(stem),
                static_cast<size_t>(sb_stemmer_length(stemmer_))};
    }
  }
  term_.assign("w:").append(folded);
  sink({term_});
}

class Analyzer::WorkspacePool {
 public:
  // Null when a new one cannot be made.
  std::unique_ptr<Workspace> Take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Workspace> workspace = std::move(free_.back());
        free_.pop_back();
        return workspace;
      }
    }
    absl::StatusOr<std::unique_ptr<Workspace>> made = Workspace::Create();
    return made.ok() ? std::move(*made) : nullptr;
  }
  void Give(std::unique_ptr<Workspace> workspace) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

Analyzer::Analyzer() : pool_(std::make_unique<WorkspacePool>()) {}
Analyzer::~Analyzer() = default;

absl::StatusOr<std::unique_ptr<Analyzer>> Analyzer::Create() {
  std::unique_ptr<Analyzer> analyzer(new Analyzer);
  absl::StatusOr<std::unique_ptr<Workspace>> first = Workspace::Create();
  if (!first.ok()) return first.status();
  analyzer->pool_->Give(std::move(*first));
  analyzer->fingerprint_ = StrCat("standard/1 icu=", U_ICU_VERSION, " unicode=", U_UNICODE_VERSION,
                                  " stemmer=snowball-english stop=lucene-33");
  return analyzer;
}

void Analyzer::Analyze(std::string_view text, Sink sink) const {
  std::unique_ptr<Workspace> workspace = pool_->Take();
  CAIRN_CHECK(workspace != nullptr);
  workspace->Analyze(text, sink);
  pool_->Give(std::move(workspace));
}

}  // namespace cairn::retrieval
