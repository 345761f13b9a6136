#include "retrieval/text/language.h"

#include <gtest/gtest.h>

namespace cairn::retrieval {
namespace {

TEST(LanguageByScript, NamesWhatTheScriptsSuggest) {
  EXPECT_EQ(LanguageByScript("How do I limit concurrency?"), "en");
  EXPECT_EQ(LanguageByScript("如何限制最大并发?"), "zh");
  EXPECT_EQ(LanguageByScript("怎么设置max_concurrency？"), "zh");
  EXPECT_EQ(LanguageByScript("What does 北京 mean in this long English sentence?"), "en");
  EXPECT_EQ(LanguageByScript("これはひらがなの文です"), "");
  EXPECT_EQ(LanguageByScript("Как это работает?"), "");
  EXPECT_EQ(LanguageByScript("12345 !?"), "");
  EXPECT_EQ(LanguageByScript(""), "");
  EXPECT_EQ(LanguageByScript("\xFF\x80"), "");
}

}  // namespace
}  // namespace cairn::retrieval
