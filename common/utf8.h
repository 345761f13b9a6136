// UTF-8 decoding and checks. Offsets are bytes.
#ifndef CAIRN_COMMON_UTF8_H_
#define CAIRN_COMMON_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

constexpr char32_t kReplacementChar = 0xFFFD;

// Decodes the code point at `text[pos]`; sets `*length` to the bytes used. Ill-formed input gives
// kReplacementChar with length 1 (surrogates, overlong forms and values above U+10FFFF are
// ill-formed). REQUIRES: pos < text.size().
char32_t DecodeUtf8(std::string_view text, size_t pos, size_t* length);

void AppendUtf8(char32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// The longest prefix length <= `limit` that does not end inside a character of valid UTF-8.
size_t Utf8Floor(std::string_view text, size_t limit);

// Bytes at the end of `text` that begin a character not yet complete (0..3): what a stream must
// hold back.
size_t IncompleteUtf8Suffix(std::string_view text);

// Each ill-formed byte becomes U+FFFD.
std::string SanitizeUtf8(std::string_view text);

}  // namespace cairn

#endif  // CAIRN_COMMON_UTF8_H_
