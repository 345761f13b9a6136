#include "agent/ask/marker_filter.h"

#include <algorithm>

namespace cairn::agent {
namespace {

// "[" + a few numbers + "]": longer bracketed text is not a marker.
constexpr size_t kMaxMarkerBytes = 24;
constexpr std::string_view kOpenLenticular = "\xE3\x80\x90";   // 【
constexpr std::string_view kCloseLenticular = "\xE3\x80\x91";  // 】
constexpr std::string_view kFullWidthComma = "\xEF\xBC\x8C";   // ，

enum class Match { kNo, kPartial, kYes };

// Reads open, optional '^', numbers separated by commas or blanks, close. Numbers go to `*numbers`.
Match MatchMarker(std::string_view text, std::vector<int>* numbers) {
  const auto starts = [&](std::string_view token) {
    return text.substr(0, token.size()) == token.substr(0, std::min(token.size(), text.size()));
  };
  if (text.size() > kMaxMarkerBytes) return Match::kNo;
  const bool lenticular = text[0] != '[';
  if (lenticular) {
    if (!starts(kOpenLenticular)) return Match::kNo;
    if (text.size() < kOpenLenticular.size()) return Match::kPartial;
  }
  text.remove_prefix(lenticular ? kOpenLenticular.size() : 1);
  const std::string_view close = lenticular ? kCloseLenticular : std::string_view("]");
  if (!text.empty() && text[0] == '^') text.remove_prefix(1);
  while (!text.empty()) {
    size_t digits = 0;
    int number = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
      if (digits == 6) return Match::kNo;
      number = number * 10 + (text[digits] - '0');
    }
    if (digits == 0) return Match::kNo;
    numbers->push_back(number);
    text.remove_prefix(digits);
    if (text.empty()) return Match::kPartial;
    if (starts(close)) return text.size() >= close.size() ? Match::kYes : Match::kPartial;
    if (starts(kFullWidthComma)) {
      if (text.size() < kFullWidthComma.size()) return Match::kPartial;
      text.remove_prefix(kFullWidthComma.size());
    } else if (text[0] == ',' || text[0] == ' ') {
      text.remove_prefix(1);
    } else {
      return Match::kNo;
    }
    while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  }
  return Match::kPartial;
}

bool IsIdentifierByte(char c) {
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
         c == ')' || c == ']';
}

// Bytes before which no blank belongs: punctuation, a line break.
bool ClosesUp(char c) { return std::string_view(".,;:!?)\n").find(c) != std::string_view::npos; }

}  // namespace

std::string MarkerFilter::Feed(std::string_view delta) {
  std::string out;
  for (const char byte : delta) Put(byte, &out);
  return out;
}

std::string MarkerFilter::Finish() {
  std::string out;
  const std::string held = std::move(held_);
  held_.clear();
  PutText(held, &out);
  if (!marker_before_blanks_) out += blanks_;
  blanks_.clear();
  return out;
}

void MarkerFilter::Put(char byte, std::string* out) {
  if (held_.empty()) {
    const bool code_index = in_code_ && blanks_.empty() && IsIdentifierByte(last_);
    if ((byte == '[' && !code_index) || byte == kOpenLenticular[0]) {
      held_ = byte;
    } else {
      PutText({&byte, 1}, out);
    }
    return;
  }
  held_ += byte;
  std::vector<int> numbers;
  switch (MatchMarker(held_, &numbers)) {
    case Match::kPartial:
      return;
    case Match::kYes:
      for (const int number : numbers) markers_.push_back({emitted_, number});
      marker_before_blanks_ = true;
      held_.clear();
      return;
    case Match::kNo:
      break;
  }
  // The bracket was text; what follows it may hold the start of a marker.
  const std::string held = std::move(held_);
  held_.clear();
  PutText(std::string_view(held).substr(0, 1), out);
  for (const char later : std::string_view(held).substr(1)) Put(later, out);
}

void MarkerFilter::PutText(std::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == ' ') {
      blanks_ += c;
      continue;
    }
    if (!blanks_.empty() || marker_before_blanks_) {
      if (!marker_before_blanks_) {
        *out += blanks_;
        emitted_ += blanks_.size();
      } else if (!blanks_.empty() && last_ != '\n' && !ClosesUp(c)) {
        *out += ' ';
        ++emitted_;
      }
      blanks_.clear();
      marker_before_blanks_ = false;
    }
    if (c == '`') in_code_ = !in_code_;
    *out += c;
    ++emitted_;
    last_ = c;
  }
}

}  // namespace cairn::agent
