#include <string>
#include <vector>

#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retrieval/parse/html_text.h"
#include "retrieval/parse/parse.h"
#include "retrieval/parse/parse_test_util.h"
#include "retrieval/parse/source_runs.h"

namespace cairn::retrieval {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Blocks(std::string_view source, std::string* title = nullptr) {
  const auto parsed = ParseDocument(source, "text/html");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::string> out;
  if (!parsed.ok()) return out;
  CheckDocument(*parsed, source);
  if (title != nullptr) *title = parsed->title;
  for (const Block& block : parsed->blocks) {
    const std::string text = parsed->text.substr(block.text.begin, block.text.size());
    switch (block.kind) {
      case BlockKind::kHeading:
        EXPECT_EQ(block.heading, text);
        out.push_back(StrCat("H", block.level, ":", text));
        break;
      case BlockKind::kParagraph:
        out.push_back("P:" + text);
        break;
      case BlockKind::kListItem:
        out.push_back("L:" + text);
        break;
      case BlockKind::kCode:
        out.push_back("C:" + text);
        break;
      case BlockKind::kTable:
        out.push_back("T(" + block.table_header + "):" + text);
        break;
      case BlockKind::kOther:
        out.push_back("O:" + text);
        break;
    }
  }
  return out;
}

TEST(HtmlTest, StructureBecomesBlocks) {
  std::string title;
  EXPECT_THAT(Blocks("<!doctype html><html><head><title> The\n title </title></head><body><h1>A  "
                     "<b>b</b>\n c</h1>"
                     "<p>one <i>two</i>\nthree<br>four<p>five<ul><li>x<ul><li>y</ul>after<li>z</ul>"
                     "<pre>  a\n\n  b &lt;c&gt;\n</pre><h3>d</h3>tail",
                     &title),
              ElementsAre("H1:A b c", "P:one two\nthree\nfour", "P:five", "L:x", "L:y", "L:after",
                          "L:z", "C:  a\n\n  b <c>", "H3:d", "P:tail"));
  EXPECT_EQ(title, "The title");
}

TEST(HtmlTest, TablesBecomeRows) {
  EXPECT_THAT(
      Blocks("<p>t</p><table><caption>cap</caption><thead><tr><th>a<th>b<tbody><tr><td>1<br>\n2"
             "<td><p>3</p><p>4</p></table><p>end"),
      ElementsAre("P:t", "T():cap\na | b\n1 2 | 3 4", "P:end"));
  EXPECT_THAT(Blocks("<table><tr><th>a<th>b<tr><td>1<td>2<tr><td><td>x</table>"),
              ElementsAre("T(a | b):a | b\n1 | 2\n| x"));
  // A bar between cells stands for the markup there, so that no piece of a row is without a source.
  const std::string source = "<table><tr><td>a<td class=x>b</table>";
  const auto parsed = ParseDocument(source, "text/html");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->text, "a | b");
  EXPECT_EQ(source.substr(parsed->map.ToSource({1, 4}).begin, 12), "<td class=x>");
  // A layout table is no table.
  EXPECT_THAT(Blocks("<table><tr><td><h1>h</h1>text<td>side</table>"),
              ElementsAre("H1:h", "P:text", "P:side"));
}

TEST(HtmlTest, BoilerplateAndHiddenTextIsLeftOut) {
  EXPECT_THAT(
      Blocks("<body><header>site</header><nav>menu</nav><script>js()</script><style>x{}</style>"
             "<aside>ads</aside><div style='DISPLAY : none'>h1</div><div hidden>h2</div>"
             "<p aria-hidden=true>h3<p>kept<div role=navigation>menu</div><template>t</template>"
             "<noscript>n</noscript><button>b</button><select><option>o</select>"
             "<textarea>ta</textarea><!-- c --><svg><text>s</text></svg>"
             "<article><header><h1>title</h1></header>body<aside>note</aside></article>"
             "<footer>foot</footer>"),
      ElementsAre("P:kept", "H1:title", "P:body", "P:note"));
  EXPECT_THAT(Blocks("<div>around</div><main><p>inside</main><div>after</div>"),
              ElementsAre("P:inside"));
  // An empty main element, or two of them, say nothing.
  EXPECT_THAT(Blocks("<p>a<main> &nbsp;</main>"), ElementsAre("P:a"));
  EXPECT_THAT(Blocks("<p>a<main>b</main><main>c</main>"), ElementsAre("P:a", "P:b", "P:c"));
}

TEST(HtmlTest, CharacterReferencesMapToTheirSource) {
  struct Case {
    const char *source, *text;
  };
  const Case cases[] = {
      {"a &amp; b &lt;c&gt; &quot;d&quot;", "a & b <c> \"d\""},
      {"AT&T &copy2020 &copy;x &notit; &Eacute;&eacute;t&eacute;", "AT&T ©2020 ©x ¬it; Éété"},
      {"&#65;&#x4E2D;&#128512;&#x1F600;z", "A中😀😀z"},
      {"&#; &#x; &; & &bogus; &bogus", "&#; &#x; &; & &bogus; &bogus"},
      {"&NotEqualTilde;x &fjlig;y", "≂̸x fjy"},
      {"x &ltb &AMP y&AMP;", "x <b & y&"},
      {"1 < 2 <3", "1 < 2 <3"},
      {"a <&lt;b <&eacute; <", "a <<b <é <"},
      {"中文&nbsp;字", "中文\u00A0字"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Blocks(c.source), ElementsAre(std::string("P:") + c.text)) << c.source;
  }
  // Each character alone maps to its own reference.
  const std::string source = "<p>x&eacute;&lt;y</p>";
  const auto parsed = ParseDocument(source, "text/html");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->text, "xé<y");
  auto at = [&](uint64_t begin, uint64_t end) {
    const Span span = parsed->map.ToSource({begin, end});
    return source.substr(span.begin, span.size());
  };
  EXPECT_EQ(at(0, 1), "x");
  EXPECT_EQ(at(1, 3), "&eacute;");
  EXPECT_EQ(at(3, 4), "&lt;");
  EXPECT_EQ(at(4, 5), "y");
}

TEST(HtmlTest, LineEndingsOfEverySystemKeepTheMap) {
  EXPECT_THAT(Blocks("<p>a\r\nb\rc\r\n\r\n  d<pre>\r\nx\r\n y\rz</pre>"),
              ElementsAre("P:a b\rc d", "C:x\r\n y\rz"));
}

TEST(HtmlTest, MisnestedMarkupKeepsTheOrderOfTheFile) {
  EXPECT_THAT(Blocks("<table>foster<tr><td>cell</table>after"),
              ElementsAre("P:foster", "T():cell", "P:after"));
  EXPECT_THAT(Blocks("<p>a</bogus>b<b><p>c</b>d<i>e</p>f"), ElementsAre("P:ab", "P:cde", "P:f"));
  EXPECT_THAT(Blocks("a<table><tr><td>x<tr>mid<td>y</table>z").size(), 5u);
}

TEST(HtmlTest, GarbageIsText) {
  EXPECT_THAT(Blocks("<"), ElementsAre("P:<"));
  EXPECT_THAT(Blocks("</"), ElementsAre("P:</"));
  EXPECT_THAT(Blocks("a<b"), ElementsAre("P:a"));
  EXPECT_THAT(Blocks("]]>"), ElementsAre("P:]]>"));
}

TEST(HtmlTest, DeepNestingIsRefusedAndNeverCrashes) {
  for (const char* tag :
       {"<div>", "<b>", "<table><td>", "<svg><g>", "<x>", "<ul><li>", "<a href=x>", "<button>",
        "<blockquote>", "<font a=", "<div><p></bogus>"}) {
    std::string source;
    for (int i = 0; i < 100'000; ++i) {
      source += tag;
      if (std::string_view(tag).ends_with('=')) StrAppend(&source, i, ">");
    }
    const auto parsed = ParseDocument(source + "x", "text/html");
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << tag;
    EXPECT_EQ(ReasonOf(parsed.status()), kReasonTooDeep) << tag;
  }
  std::string fine;
  for (int i = 0; i < 900; ++i) fine += "<div>";
  EXPECT_THAT(Blocks(fine + "x"), ElementsAre("P:x"));
  // Unclosed paragraphs and items are not depth.
  std::string items = "<ul>";
  for (int i = 0; i < 5000; ++i) items += "<li>x<p>y";
  EXPECT_EQ(Blocks(items).size(), 10'000u);
}

// What the estimate of the depth cannot see runs into the limits of memory and time.
TEST(HtmlTest, TangledMarkupIsBounded) {
  std::string formatting = "<p>";  // every <p> opens all 900 again
  for (int i = 0; i < 900; ++i) StrAppend(&formatting, "<b x=", i, ">");
  for (int i = 0; i < 50'000; ++i) formatting += "<p>a";
  EXPECT_EQ(ReasonOf(ParseDocument(formatting, "text/html").status()), kReasonTooDeep);

  std::string attributes = "<p ";
  for (int i = 0; i < 200'000; ++i) StrAppend(&attributes, "a", i, " ");
  EXPECT_EQ(ReasonOf(ParseDocument(attributes + ">x", "text/html").status()), kReasonTooDeep);

  std::string hidden_depth;  // each </i> is out of scope, so the tree only grows
  for (int i = 0; i < 40'000; ++i) hidden_depth += "<svg/><x></x><div></q><object></div>";
  const auto parsed = ParseDocument(hidden_depth + "x", "text/html");
  EXPECT_EQ(ReasonOf(parsed.status()), kReasonTooDeep);
}

TEST(AlignTextTest, WhatDoesNotFitIsOnePiece) {
  std::vector<HtmlAtom> atoms;
  AlignText("a<bogus>&b; end", "aXY end", 10, &atoms);
  ASSERT_EQ(atoms.size(), 3u);
  EXPECT_EQ(atoms[0].text, "a");
  EXPECT_FALSE(atoms[0].replaced);
  EXPECT_TRUE(atoms[1].replaced);
  EXPECT_EQ(atoms[1].text, "XY");
  EXPECT_EQ(atoms[1].source_begin, 18u);
  EXPECT_EQ(atoms[1].source_size, 3u);
  EXPECT_EQ(atoms[2].text, " end");
  EXPECT_EQ(atoms[2].source_begin, 21u);
}

TEST(AlignTextTest, CopiesAreAlwaysEqual) {
  for (const auto& [original, decoded] :
       {std::pair{"&#;x", ";Zx"}, std::pair{"&#x", "4x"}, std::pair{"a&b", "axb"},
        std::pair{"<p>&&#", "&4"}, std::pair{"&", "z"}, std::pair{"", "abc"},
        std::pair{"abc", ""}}) {
    std::vector<HtmlAtom> atoms;
    AlignText(original, decoded, 0, &atoms);
    for (const HtmlAtom& atom : atoms) {
      if (atom.replaced) continue;
      EXPECT_EQ(atom.text, std::string_view(original).substr(atom.source_begin, atom.source_size));
    }
  }
}

TEST(CutMapTest, ARunThatIsCutDoesNotClaimEquality) {
  // Five bytes of text for three of source; three of the five must not look like a copy of the
  // three.
  const SourceMap map({{0, 5, 10, 3}, {5, 4, 13, 4}});
  const SourceMap cut = CutMap(map, {1, 4});
  for (const SourceRun& run : cut.runs()) EXPECT_NE(run.text_size, run.source_size);
  EXPECT_EQ(cut.ToSource({0, 3}), (Span{10, 13}));
  EXPECT_EQ(CutMap(map, {6, 8}).ToSource({0, 2}), (Span{14, 16}));
  EXPECT_TRUE(CutMap(map, {9, 9}).runs().empty());
}

}  // namespace
}  // namespace cairn::retrieval
