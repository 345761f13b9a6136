#include "retrieval/parse/encoding.h"

#include <unicode/ucnv.h>

#include <string>

#include "common/utf8.h"
#include "gtest/gtest.h"
#include "retrieval/parse/parse.h"

namespace cairn::retrieval {
namespace {

using namespace std::string_literals;

constexpr uint64_t kRuns = 1 << 20;

// ICU's own conversion, as the outside reference.
std::string Encode(const char* charset, std::string_view utf8) {
  UErrorCode error = U_ZERO_ERROR;
  std::string out(utf8.size() * 4 + 16, '\0');
  const int32_t size = ucnv_convert(charset, "UTF-8", out.data(), static_cast<int32_t>(out.size()),
                                    utf8.data(), static_cast<int32_t>(utf8.size()), &error);
  EXPECT_TRUE(U_SUCCESS(error)) << u_errorName(error);
  out.resize(static_cast<size_t>(size));
  return out;
}

constexpr char kChinese[] =
    "百度内大多数服务都使用这个框架。它支持多种协议，可以在一个端口上同时提供服务！例如 HTTP、"
    "Redis 和 Thrift；性能非常好，延时很低。线程数默认等于机器的核数。";

TEST(EncodingTest, DecodesWhatItDetects) {
  struct Case {
    std::string source, encoding, text;
  };
  const std::string utf16 = Encode("UTF-16LE", kChinese);
  const Case cases[] = {
      {"plain", "utf-8", "plain"},
      {"", "utf-8", ""},
      {kChinese, "utf-8", kChinese},
      {"\xEF\xBB\xBF" + std::string(kChinese), "utf-8-bom", kChinese},
      {Encode("gb18030", kChinese), "gb18030", kChinese},
      {Encode("GBK", "超时"), "gb18030", "超时"},
      {Encode("gb18030", "生僻字𠀀也可以，表情😀也行，重音é也在。"), "gb18030",
       "生僻字𠀀也可以，表情😀也行，重音é也在。"},
      {"\xFF\xFE" + utf16, "utf-16le", kChinese},
      {"\xFE\xFF" + Encode("UTF-16BE", "a é 中 😀"), "utf-16be", "a é 中 😀"},
  };
  for (const Case& c : cases) {
    const auto decoded = DecodeSource(c.source, kRuns);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->encoding, c.encoding);
    EXPECT_EQ(decoded->text, c.text);
  }
}

// Every character's span, cut from the source and decoded alone, is that character.
TEST(EncodingTest, TheMapIsExactForEveryCharacter) {
  const std::string text = std::string(kChinese) + " é Ж α 𠀀 😀 mixed text";
  for (const char* charset : {"gb18030", "UTF-16LE", "UTF-16BE"}) {
    std::string source = Encode(charset, text);
    const bool wide = charset[0] == 'U';
    if (wide) source = (charset[6] == 'L' ? "\xFF\xFE" : "\xFE\xFF") + source;
    const auto decoded = DecodeSource(source, kRuns);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    for (size_t pos = 0; pos < text.size();) {
      size_t length;
      DecodeUtf8(text, pos, &length);
      const Span span = decoded->map.ToSource({pos, pos + length});
      EXPECT_EQ(source.substr(span.begin, span.size()),
                Encode(charset, std::string_view(text).substr(pos, length)));
      pos += length;
    }
    for (const SourceRun& run : decoded->map.runs()) {
      if (run.text_size != run.source_size) continue;
      EXPECT_EQ(text.substr(run.text_begin, run.text_size),
                source.substr(run.source_begin, run.source_size));
    }
  }
}

TEST(EncodingTest, RefusesWhatIsNotText) {
  struct Case {
    std::string name, source;
    const char* reason;
  };
  const std::string korean =
      "서버는 기본적으로 여러 프로토콜을 지원하며 하나의 포트에서 동시에 서비스를 제공할 수 "
      "있습니다. "
      "스레드 수는 기본적으로 코어 수와 같습니다. 성능이 매우 좋고 지연 시간이 낮습니다.";
  const std::string russian =
      "Сервер поддерживает несколько протоколов на одном порту одновременно.";
  const std::string japanese =
      "サーバーは複数のプロトコルをサポートし、一つのポートで同時にサービスを提供できます。スレッド"
      "数は"
      "デフォルトでコア数と同じです。";
  const Case cases[] = {
      {"NUL", "text with \0 inside"s, kReasonBinary},
      {"NUL in UTF-16",
       "\xFF\xFE"
       "a\0\0\0"s,
       kReasonBinary},
      {"PDF", "%PDF-1.7\n", kReasonBinary},
      {"zip", "PK\x03\x04rest", kReasonBinary},
      {"PNG", "\x89PNG\r\n\x1A\n", kReasonBinary},
      {"gzip", "\x1F\x8B\x08", kReasonBinary},
      {"UTF-32LE", "\xFF\xFE\0\0a\0\0\0"s, kReasonEncoding},
      {"UTF-32BE", "\0\0\xFE\xFF\0\0\0a"s, kReasonEncoding},
      {"UTF-16 with an odd byte",
       "\xFF\xFE"
       "a\0b"s,
       kReasonEncoding},
      {"UTF-16 unpaired surrogate", "\xFF\xFE\x00\xD8"s + "a\0"s, kReasonEncoding},
      {"UTF-8 BOM, then a bad byte",
       "\xEF\xBB\xBF"
       "abc\xFF",
       kReasonEncoding},
      {"Latin-1", "caf\xE9 au lait, d\xE9j\xE0 vu", kReasonEncoding},
      {"Latin-1 that decodes as GBK", "\xE9t\xE9, \xE9l\xE8ve, \xE9t\xE9", kReasonEncoding},
      {"cp1251", Encode("windows-1251", russian), kReasonEncoding},
      {"EUC-KR", Encode("EUC-KR", korean), kReasonEncoding},
      {"Shift_JIS", Encode("Shift_JIS", japanese), kReasonEncoding},
      {"EUC-JP", Encode("EUC-JP", japanese), kReasonEncoding},
      {"truncated GB18030", Encode("gb18030", "中文中文").substr(0, 7), kReasonEncoding},
      {"truncated UTF-8", std::string("abc中").substr(0, 5), kReasonEncoding},
      {"overlong NUL", "a\xC0\x80z", kReasonEncoding},
      {"surrogate in UTF-8", "a\xED\xA0\x80z", kReasonEncoding},
      {"lone 0x80", "a\x80z", kReasonEncoding},
  };
  for (const Case& c : cases) {
    const auto decoded = DecodeSource(c.source, kRuns);
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument)
        << c.name << (decoded.ok() ? decoded->text : "");
    EXPECT_EQ(ReasonOf(decoded.status()), c.reason) << c.name << decoded.status();
  }
}

TEST(EncodingTest, BoundsTheMap) {
  const auto decoded = DecodeSource(Encode("gb18030", kChinese), 10);
  EXPECT_EQ(ReasonOf(decoded.status()), kReasonTooLarge);
}

}  // namespace
}  // namespace cairn::retrieval
