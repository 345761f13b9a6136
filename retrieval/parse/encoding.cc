#include "retrieval/parse/encoding.h"

#include <unicode/ucnv.h>
#include <unicode/ucsdet.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/parse/parse.h"
#include "retrieval/parse/source_runs.h"

namespace cairn::retrieval {
namespace {

absl::Status Refuse(std::string_view message, std::string_view reason) {
  return WithReason(absl::InvalidArgumentError(ToAbsl(message)), reason);
}

absl::Status TooManyRuns(std::string_view encoding, uint64_t limit) {
  return Refuse(StrCat("the ", encoding, " text has more than ", limit,
                       " pieces to map; convert it to UTF-8 or split it"),
                kReasonTooLarge);
}

// Name of the binary format whose signature `source` begins with, or "".
std::string_view BinaryFormat(std::string_view source) {
  static constexpr std::pair<std::string_view, std::string_view> kSignatures[] = {
      {"%PDF-", "PDF"},
      {"PK\x03\x04", "ZIP (or an office document)"},
      {"\x1F\x8B", "gzip"},
      {"\x89PNG", "PNG"},
      {"GIF8", "GIF"},
      {"\xFF\xD8\xFF", "JPEG"},
      {"\x7F"
       "ELF",
       "ELF"},
      {"\xD0\xCF\x11\xE0", "OLE (an old office document)"},
      {"{\\rtf", "RTF"},
      {"BZh", "bzip2"},
      {"\xFD"
       "7zXZ",
       "xz"},
      {"7z\xBC\xAF", "7-Zip"},
  };
  for (const auto& [signature, name] : kSignatures) {
    if (source.starts_with(signature)) return name;
  }
  return {};
}

size_t FirstBadUtf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    size_t length;
    if (DecodeUtf8(text, pos, &length) == kReplacementChar && length == 1) return pos;
    pos += length;
  }
  return text.size();
}

absl::StatusOr<DecodedText> DecodeUtf16(std::string_view source, bool big_endian,
                                        uint64_t max_map_runs) {
  const std::string_view name = big_endian ? "utf-16be" : "utf-16le";
  if (source.size() % 2 != 0) {
    return Refuse(
        StrCat(name, " by its byte order mark, but with an odd number of bytes, ", source.size()),
        kReasonEncoding);
  }
  auto unit = [&](size_t pos) {
    const auto a = static_cast<unsigned char>(source[pos]);
    const auto b = static_cast<unsigned char>(source[pos + 1]);
    return static_cast<char32_t>(big_endian ? a << 8 | b : b << 8 | a);
  };
  DecodedText out;
  RunBuilder runs;
  for (size_t pos = 2; pos < source.size();) {
    size_t length = 2;
    char32_t c = unit(pos);
    if (c >= 0xD800 && c <= 0xDBFF && pos + 4 <= source.size()) {
      const char32_t low = unit(pos + 2);
      if (low >= 0xDC00 && low <= 0xDFFF) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        length = 4;
      }
    }
    if (c >= 0xD800 && c <= 0xDFFF) {
      return Refuse(StrCat(name, " with an unpaired surrogate at byte ", pos), kReasonEncoding);
    }
    if (c == 0) return Refuse(StrCat("NUL character at byte ", pos), kReasonBinary);
    const size_t before = out.text.size();
    AppendUtf8(c, &out.text);
    runs.Replace(before, out.text.size() - before, pos, length);
    if (runs.size() > max_map_runs) return TooManyRuns(name, max_map_runs);
    pos += length;
  }
  out.map = std::move(runs).Build();
  out.encoding = std::string(name);
  return out;
}

// Whether ICU's statistics see one of GB18030's rivals in `source` more clearly than it.
bool LooksLikeARival(std::string_view source) {
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<UCharsetDetector, decltype(&ucsdet_close)> detector(ucsdet_open(&error),
                                                                      &ucsdet_close);
  const int32_t sample = static_cast<int32_t>(std::min<size_t>(source.size(), 64 << 10));
  ucsdet_setText(detector.get(), source.data(), sample, &error);
  int32_t count = 0;
  const UCharsetMatch** matches = ucsdet_detectAll(detector.get(), &count, &error);
  if (U_FAILURE(error)) return false;
  int32_t own = 0, rival = 0;
  for (int32_t i = 0; i < count; ++i) {
    const std::string_view name = ucsdet_getName(matches[i], &error);
    const int32_t confidence = ucsdet_getConfidence(matches[i], &error);
    if (name == "GB18030") own = confidence;
    if (name == "EUC-KR" || name == "EUC-JP" || name == "Shift_JIS" || name == "Big5" ||
        name == "KOI8-R" || name == "windows-1251") {
      rival = std::max(rival, confidence);
    }
  }
  return rival > own;
}

absl::StatusOr<DecodedText> DecodeGb18030(std::string_view source, size_t bad_utf8,
                                          uint64_t max_map_runs) {
  const auto refuse = [&](std::string_view why) {
    return Refuse(StrCat("not UTF-8 (bad byte at ", bad_utf8, ") and not GB18030 (", why,
                         "); convert the file to UTF-8"),
                  kReasonEncoding);
  };
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<UConverter, decltype(&ucnv_close)> converter(ucnv_open("gb18030", &error),
                                                               &ucnv_close);
  ucnv_setToUCallBack(converter.get(), UCNV_TO_U_CALLBACK_STOP, nullptr, nullptr, nullptr, &error);
  if (U_FAILURE(error)) return absl::InternalError("ICU has no GB18030 converter");

  DecodedText out;
  RunBuilder runs;
  uint64_t two_byte = 0, common = 0;
  const char* const begin = source.data();
  const char* const end = begin + source.size();
  for (const char* pos = begin; pos < end;) {
    const char* const start = pos;
    const uint64_t offset = static_cast<uint64_t>(start - begin);
    if (static_cast<unsigned char>(*pos) < 0x80) {
      runs.Copy(out.text.size(), offset, 1);
      out.text += *pos++;
      continue;
    }
    const UChar32 c = ucnv_getNextUChar(converter.get(), &pos, end, &error);
    if (U_FAILURE(error)) return refuse(StrCat("bad byte at ", offset));
    if (c < 0xA0) return refuse(StrCat("control character at byte ", offset));
    const size_t before = out.text.size();
    AppendUtf8(static_cast<char32_t>(c), &out.text);
    runs.Replace(before, out.text.size() - before, offset, static_cast<uint64_t>(pos - start));
    if (runs.size() > max_map_runs) return TooManyRuns("gb18030", max_map_runs);
    if (pos - start == 2) {
      // Real Chinese text is mostly punctuation (rows A1-A3) and first-level Han (B0-D7) of GB2312;
      // other encodings that happen to decode land elsewhere.
      const auto lead = static_cast<unsigned char>(start[0]);
      const auto trail = static_cast<unsigned char>(start[1]);
      ++two_byte;
      if (trail >= 0xA1 && (lead <= 0xD7 && lead >= 0xA1 && (lead <= 0xA3 || lead >= 0xB0)))
        ++common;
    }
  }
  if (common * 2 < two_byte) return refuse("it decodes, but not to Chinese text");
  // Statistics need some text to say anything.
  if (two_byte >= 32 && LooksLikeARival(source)) {
    return refuse("it reads like another East Asian or Cyrillic encoding");
  }
  out.map = std::move(runs).Build();
  out.encoding = "gb18030";
  return out;
}

}  // namespace

absl::StatusOr<DecodedText> DecodeSource(std::string_view source, uint64_t max_map_runs) {
  using namespace std::string_view_literals;
  if (const std::string_view format = BinaryFormat(source); !format.empty()) {
    return Refuse(StrCat("the file is ", format, ", not text"), kReasonBinary);
  }
  // UTF-32LE begins like UTF-16LE: ask first.
  if (source.starts_with("\xFF\xFE\0\0"sv) || source.starts_with("\0\0\xFE\xFF"sv)) {
    return Refuse("UTF-32 by its byte order mark; convert the file to UTF-8", kReasonEncoding);
  }
  if (source.starts_with("\xFF\xFE")) return DecodeUtf16(source, false, max_map_runs);
  if (source.starts_with("\xFE\xFF")) return DecodeUtf16(source, true, max_map_runs);
  if (const size_t nul = source.find('\0'); nul != std::string_view::npos) {
    return Refuse(StrCat("NUL byte at ", nul), kReasonBinary);
  }
  const bool bom = source.starts_with("\xEF\xBB\xBF");
  const size_t bad = FirstBadUtf8(source);
  if (bad == source.size()) {
    DecodedText out;
    const size_t skip = bom ? 3 : 0;
    out.text = std::string(source.substr(skip));
    out.map = SourceMap::Identity(skip, source.size() - skip);
    out.encoding = bom ? "utf-8-bom" : "utf-8";
    return out;
  }
  if (bom) {
    return Refuse(StrCat("UTF-8 by its byte order mark, but with a bad byte at ", bad),
                  kReasonEncoding);
  }
  return DecodeGb18030(source, bad, max_map_runs);
}

}  // namespace cairn::retrieval
