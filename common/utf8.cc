#include "common/utf8.h"

#include <algorithm>

namespace cairn {
namespace {

// Bytes that a lead byte announces, 0 when it cannot lead.
size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

bool IsContinuation(unsigned char c) { return (c & 0xC0) == 0x80; }

}  // namespace

char32_t DecodeUtf8(std::string_view text, size_t pos, size_t* length) {
  const unsigned char lead = static_cast<unsigned char>(text[pos]);
  const size_t n = SequenceLength(lead);
  *length = 1;
  if (n == 1) return lead;
  if (n == 0 || text.size() - pos < n) return kReplacementChar;
  char32_t value = lead & (0x7F >> n);
  for (size_t i = 1; i < n; ++i) {
    const unsigned char c = static_cast<unsigned char>(text[pos + i]);
    if (!IsContinuation(c)) return kReplacementChar;
    value = (value << 6) | (c & 0x3F);
  }
  static constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[n] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return kReplacementChar;
  }
  *length = n;
  return value;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += static_cast<char>(0xC0 | (c >> 6));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    *out += static_cast<char>(0xE0 | (c >> 12));
    *out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | (c >> 18));
    *out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    *out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool IsValidUtf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    size_t length;
    const char32_t c = DecodeUtf8(text, pos, &length);
    if (c == kReplacementChar && length == 1) return false;
    pos += length;
  }
  return true;
}

size_t Utf8Floor(std::string_view text, size_t limit) {
  size_t pos = std::min(limit, text.size());
  while (pos > 0 && pos < text.size() && IsContinuation(static_cast<unsigned char>(text[pos])))
    --pos;
  return pos;
}

size_t IncompleteUtf8Suffix(std::string_view text) {
  const size_t most = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= most; ++back) {
    const unsigned char c = static_cast<unsigned char>(text[text.size() - back]);
    if (IsContinuation(c)) continue;
    return SequenceLength(c) > back ? back : 0;
  }
  return 0;
}

std::string SanitizeUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    size_t length;
    AppendUtf8(DecodeUtf8(text, pos, &length), &out);
    pos += length;
  }
  return out;
}

}  // namespace cairn
