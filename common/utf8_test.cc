#include "common/utf8.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Utf8Test, RoundTripsEveryScalarValue) {
  for (char32_t c = 1; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, &text);
    size_t length;
    ASSERT_EQ(DecodeUtf8(text, 0, &length), c);
    ASSERT_EQ(length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(IncompleteUtf8Suffix(text.substr(0, cut)), cut);
      ASSERT_EQ(Utf8Floor(text, cut), 0u);
    }
    ASSERT_EQ(IncompleteUtf8Suffix(text), 0u);
  }
}

TEST(Utf8Test, RefusesIllFormedInput) {
  for (const char* bad : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF",
                          "\x80", "\xE4\xB8"}) {
    EXPECT_FALSE(IsValidUtf8(bad));
    EXPECT_TRUE(IsValidUtf8(SanitizeUtf8(bad)));
  }
  EXPECT_TRUE(IsValidUtf8("\xEF\xBF\xBD"));
  EXPECT_EQ(SanitizeUtf8("a\xFFz"), "a\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace cairn
