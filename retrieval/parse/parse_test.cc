#include "retrieval/parse/parse.h"

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retrieval/parse/parse_test_util.h"

namespace cairn::retrieval {
namespace {

using ::testing::ElementsAre;

ParsedDocument MustParse(std::string_view source, std::string_view media_type) {
  auto parsed = ParseDocument(source, media_type);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return {};
  CheckDocument(*parsed, source);
  return *std::move(parsed);
}

std::vector<std::string> Texts(const ParsedDocument& document) {
  std::vector<std::string> out;
  for (const Block& block : document.blocks) {
    out.push_back(document.text.substr(block.text.begin, block.text.size()));
  }
  return out;
}

TEST(MediaTypeTest, DeclarationThenNameThenBytes) {
  struct Case {
    const char *declared, *name, *source, *want;
  };
  const Case cases[] = {
      {"text/markdown", "a.html", "<html>", "text/markdown"},
      {"Text/HTML; charset=utf-8", "a.txt", "x", "text/html"},
      {"text/x-markdown", "", "", "text/markdown"},
      {"application/xhtml+xml", "", "", "text/html"},
      {"", "docs/READ.me/a.MD", "x", "text/markdown"},
      {"", "a.htm", "x", "text/html"},
      {"", "a.text", "<html>", "text/plain"},
      {"", "no_extension", "\xEF\xBB\xBF \n<!DOCTYPE html><p>", "text/html"},
      {"", "a.cc", "int main() {}", "text/plain"},
      {"", "", "", "text/plain"},
  };
  for (const Case& c : cases) {
    const auto type = ResolveMediaType(c.declared, c.name, c.source);
    ASSERT_TRUE(type.ok()) << type.status();
    EXPECT_EQ(*type, c.want) << c.declared << " " << c.name;
  }
  for (const char* bad : {"application/pdf", "text/", "markdown", "text/htmlx", " "}) {
    EXPECT_EQ(ReasonOf(ResolveMediaType(bad, "a.md", "x").status()), kReasonMediaType) << bad;
  }
}

TEST(PlainTextTest, ParagraphsAreSetOffByBlankLinesOrIdeographicIndent) {
  EXPECT_THAT(Texts(MustParse("\n\n one\ntwo \n \t\nthree\r\n\r\nfour\rfive\n\n\n", "text/plain")),
              ElementsAre(" one\ntwo", "three", "four\rfive"));
  EXPECT_THAT(Texts(MustParse("　　第一段。\n第一段续。\n　　第二段。", "text/plain")),
              ElementsAre("　　第一段。\n第一段续。", "　　第二段。"));
  EXPECT_THAT(Texts(MustParse("# not a heading\n- nor an item", "text/plain")),
              ElementsAre("# not a heading\n- nor an item"));
}

TEST(ParseTest, BlankAndEmptyFilesHaveNoText) {
  for (const char* type : {"text/plain", "text/markdown", "text/html"}) {
    for (const char* source : {"", "\n", " \t\r\n", "\xEF\xBB\xBF", "\u3000\u200B\u00A0\n", "\r"}) {
      EXPECT_EQ(ReasonOf(ParseDocument(source, type).status()), kReasonEmpty) << type;
    }
  }
  EXPECT_EQ(ReasonOf(ParseDocument("---\ntitle: x\n---\n", "text/markdown").status()),
            kReasonEmpty);
  EXPECT_EQ(ReasonOf(ParseDocument("<script>a()</script><nav>b</nav>", "text/html").status()),
            kReasonEmpty);
}

TEST(ParseTest, RefusesFilesOverTheLimit) {
  ParseLimits limits;
  limits.max_source_bytes = 100;
  limits.max_html_bytes = 10;
  EXPECT_TRUE(ParseDocument(std::string(100, 'x'), "text/plain", limits).ok());
  EXPECT_EQ(ReasonOf(ParseDocument(std::string(101, 'x'), "text/plain", limits).status()),
            kReasonTooLarge);
  EXPECT_EQ(ReasonOf(ParseDocument(std::string(11, 'x'), "text/html", limits).status()),
            kReasonTooLarge);
}

TEST(ParseTest, CountsWhatWasRemoved) {
  EXPECT_EQ(MustParse("abc\n", "text/plain").removed_bytes, 0u);
  EXPECT_EQ(MustParse("\xEF\xBB\xBF"
                      "abc",
                      "text/markdown")
                .removed_bytes,
            3u);
  EXPECT_EQ(MustParse("<p>abc</p>", "text/html").removed_bytes, 7u);
}

TEST(ParseTest, EveryRealDocumentKeepsItsTextAndItsMap) {
  const char* data = std::getenv("CAIRN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "CAIRN_TEST_DATA is not set";
  int files = 0;
  for (const char* folder : {"brpc/en", "brpc/zh", "pisa"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(data) + "/documents/" + folder)) {
      const std::string path = entry.path().string();
      const auto source = ReadFile(path);
      ASSERT_TRUE(source.ok()) << source.status();
      SCOPED_TRACE(path);
      const std::string type = *ResolveMediaType("", path, *source);
      const ParsedDocument document = MustParse(*source, type);
      if (type != "text/html") {
        EXPECT_EQ(document.text, *source);
      }
      ++files;
    }
  }
  EXPECT_GE(files, 64 + 14);
}

}  // namespace
}  // namespace cairn::retrieval
