// Parses and chunks mutated documents of all three formats, from a fixed seed, for a bounded time:
// nothing may crash, and what is accepted must keep every invariant.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "retrieval/chunk/chunk_test_util.h"
#include "retrieval/chunk/chunker.h"
#include "retrieval/parse/parse.h"
#include "retrieval/parse/parse_test_util.h"

namespace cairn::retrieval {
namespace {

constexpr char kMarkdownSeed[] =
    "---\ntitle: T\n---\n# One\npara *em* `code` [l](u)\n\n- item\n  - nested\n\n    ```c\n    # "
    "x\n    ```\n"
    "1. a\n2. b\n\n> quote\n> # q\n\n| a | b |\n|---|:-:|\n| 1 | 2 "
    "|\n\nSet\n===\n\n<div>\nhtml\n</div>\n\n"
    "    indented\n\n[r]: http://x\n***\n```\nfence\n## "
    "中文标题\n默认超时是500毫秒。可以改吗？\r\n\r\n";
constexpr char kHtmlSeed[] =
    "<!doctype html><html><head><title>T &amp; x</title><style>p{}</style></head><body><nav>n</nav>"
    "<main><h1>One <b>b</b></h1><p>para &eacute;&lt; &#x4e2d; "
    "text<br>line<ul><li>a<li>b<ul><li>c</ul></ul>"
    "<table><tr><th>k<th>v<tr><td>1<td>2</table><pre>\n x\r\n "
    "y</pre><h2>二</h2>默认超时。<script>s()</script>"
    "<div "
    "hidden>h</div><svg><g/></svg><table>foster<tr><td>z</table></main><footer>f</footer></body></"
    "html>";
constexpr char kTextSeed[] =
    "First paragraph. Second sentence!\nSame "
    "paragraph.\n\n　　中文段落。第二句？\n　　另一段。\r\n\r\nLast e.g. one";

const char* const kTokens[] = {
    "#",          "\n",        "\n\n",      "```",      "~~~~",    "- ",         "1. ",
    "> ",         "|",         "\n|-|-|\n", "    ",     "\t",      "---",        "===",
    "<",          ">",         "</",        "<p>",      "<table>", "<td>",       "</div>",
    "<pre>",      "<!--",      "-->",       "&",        "&amp",    "&#x41;",     "&lt;",
    "\"",         "<b>",       "</b>",      "<svg>",    "<math>",  "<main>",     "<li>",
    "[",          "](",        "]:",        "。",       "\u3000",  "\xFF",       "\xC3",
    "\x80",       "\r",        "\r\n",      "\u200D",   "\u0301",  "😀",          "<h1>",
    "<select>",   "<![CDATA[", "]]>",       "<?",       "<title>", "<textarea>", "<plaintext>",
    "<template>", "<form>",    "<a>",       "<caption>"};

std::string Mutate(std::string text, std::mt19937& random) {
  auto below = [&](size_t n) { return n == 0 ? size_t{0} : random() % n; };
  const size_t changes = 1 + below(12);
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
      case 1:
        text.insert(at, kTokens[below(std::size(kTokens))]);
        break;
      case 2:
        text.erase(at, below(20));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(80)));
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 5: {
        const std::string token = kTokens[below(std::size(kTokens))];
        for (size_t n = below(60); n > 0; --n) text.insert(at, token);
        break;
      }
    }
    if (text.size() > 8192) text.resize(8192);
  }
  return text;
}

class MutationTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(MutationTest, NothingCrashesAndInvariantsHold) {
  const auto [type, seed] = GetParam();
  std::mt19937 random(20240607);
  std::string current = seed;
  ChunkOptions options;
  options.max_tokens = 320;
  options.target_tokens = 24;
  int accepted = 0;
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int round = 0; round < 20000 && std::chrono::steady_clock::now() < stop; ++round) {
    const std::string source = Mutate(current, random);
    current = random() % 20 == 0 ? seed : source;
    const auto document = ParseDocument(source, type);
    if (!document.ok()) {
      ASSERT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument) << document.status();
      ASSERT_NE(ReasonOf(document.status()), "");
      current = seed;
      continue;
    }
    ++accepted;
    SCOPED_TRACE(source);
    ASSERT_NO_FATAL_FAILURE(CheckDocument(*document, source));
    FakeCounter counter;
    const auto chunks = ChunkDocument(*document, "d", "s", counter.function(), options);
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    // One cluster may exceed the small window here, so cluster boundaries are not checked.
    ASSERT_NO_FATAL_FAILURE(CheckChunks(*document, source, *chunks, options.max_tokens, false));
  }
  EXPECT_GT(accepted, 100);
}

INSTANTIATE_TEST_SUITE_P(Formats, MutationTest,
                         ::testing::Values(std::pair{"text/markdown", kMarkdownSeed},
                                           std::pair{"text/html", kHtmlSeed},
                                           std::pair{"text/plain", kTextSeed}));

}  // namespace
}  // namespace cairn::retrieval
