#include "retrieval/chunk/chunker.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retrieval/chunk/chunk_test_util.h"
#include "retrieval/chunk/language.h"
#include "retrieval/parse/parse.h"

namespace cairn::retrieval {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Repeat(std::string_view piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) StrAppend(&out, piece);
  return out;
}

std::vector<Chunk> MustChunk(std::string_view source, std::string_view type,
                             ChunkOptions options = {}, FakeCounter* counter = nullptr,
                             bool check_clusters = true) {
  const auto document = ParseDocument(source, type);
  EXPECT_TRUE(document.ok()) << document.status();
  FakeCounter own;
  if (counter == nullptr) counter = &own;
  auto chunks = ChunkDocument(*document, "doc", "sha", counter->function(), options);
  EXPECT_TRUE(chunks.ok()) << chunks.status();
  if (!chunks.ok()) return {};
  CheckChunks(*document, source, *chunks, options.max_tokens, check_clusters);
  return *std::move(chunks);
}

std::vector<std::string> Texts(const std::vector<Chunk>& chunks) {
  std::vector<std::string> out;
  for (const Chunk& chunk : chunks) out.push_back(chunk.text);
  return out;
}

TEST(ChunkerTest, SmallNeighboursOfOneSectionAreMergedAndHeadingsDivide) {
  const auto chunks = MustChunk(
      "intro\n\n# A\n\none\n\ntwo\n\n- x\n- y\n\n## B\n\nthree\n\n# C\nfour", "text/markdown");
  EXPECT_THAT(Texts(chunks),
              ElementsAre("intro", "# A\n\none\n\ntwo\n\n- x\n- y", "## B\n\nthree", "# C\nfour"));
  EXPECT_THAT(chunks[0].heading_path, IsEmpty());
  EXPECT_THAT(chunks[1].heading_path, ElementsAre("A"));
  EXPECT_THAT(chunks[2].heading_path, ElementsAre("A", "B"));
  EXPECT_THAT(chunks[3].heading_path, ElementsAre("C"));
}

TEST(ChunkerTest, AHeadingWithoutTextOpensTheDeeperSection) {
  const auto chunks = MustChunk("# A\n## B\ntext\n## C\n# D\n# E\nmore", "text/markdown");
  EXPECT_THAT(Texts(chunks), ElementsAre("# A\n## B\ntext", "## C", "# D", "# E\nmore"));
  EXPECT_THAT(chunks[0].heading_path, ElementsAre("A", "B"));
  EXPECT_THAT(chunks[1].heading_path, ElementsAre("A", "C"));
}

TEST(ChunkerTest, LongParagraphsAreCutBetweenSentences) {
  ChunkOptions options;
  options.target_tokens = 40;
  const auto english = MustChunk(Repeat("This is a sentence of ten tokens, more or less. ", 20),
                                 "text/plain", options);
  EXPECT_GE(english.size(), 5u);
  for (const Chunk& chunk : english) EXPECT_EQ(chunk.text.back(), '.');
  const auto chinese = MustChunk(Repeat("默认的超时时间是五百毫秒。", 40), "text/plain", options);
  EXPECT_GE(chinese.size(), 10u);
  for (const Chunk& chunk : chinese) EXPECT_TRUE(chunk.text.ends_with("。"));
}

TEST(ChunkerTest, CodeStaysWholeWhileItFitsTheWindow) {
  ChunkOptions options;
  options.target_tokens = 40;
  options.max_tokens = 200;
  const std::string code = "```\n" + Repeat("call(a);\n", 25) + "```";  // 25 * 5 + 6 tokens
  EXPECT_THAT(Texts(MustChunk("before\n\n" + code + "\n\nafter", "text/markdown", options)),
              ElementsAre("before\n\n" + code, "after"));
  const std::string lead_in =
      Repeat("longer ", 12);  // 24 tokens, more than a quarter of the target
  EXPECT_THAT(Texts(MustChunk(lead_in + "\n\n" + code, "text/markdown", options)), SizeIs(2));
  // A heading is not left alone before it.
  EXPECT_THAT(Texts(MustChunk("# H\n" + code, "text/markdown", options)),
              ElementsAre("# H\n" + code));
  // Larger: between blank lines, then between lines.
  const std::string groups = "```\n" + Repeat(Repeat("call(a);\n", 5) + "\n", 20) + "```";
  for (const Chunk& chunk : MustChunk(groups, "text/markdown", options)) {
    EXPECT_TRUE(chunk.text.ends_with(";") || chunk.text.ends_with("```")) << chunk.text;
    EXPECT_TRUE(chunk.text.starts_with("call") || chunk.text.starts_with("```")) << chunk.text;
  }
}

TEST(ChunkerTest, TablesAreCutBetweenRowsAndCarryTheirHeader) {
  ChunkOptions options;
  options.target_tokens = 60;
  const std::string table =
      "| name | value |\n|------|-------|\n" + Repeat("| aaaa | bbbb |\n", 40);
  const auto chunks = MustChunk("# T\n\n" + table, "text/markdown", options);
  ASSERT_GE(chunks.size(), 4u);
  EXPECT_TRUE(chunks[0].text.starts_with("# T\n\n| name | value |\n|------|-------|\n| aaaa"));
  EXPECT_THAT(chunks[0].heading_path, ElementsAre("T"));
  for (size_t i = 1; i < chunks.size(); ++i) {
    EXPECT_THAT(chunks[i].heading_path, ElementsAre("T", "name | value"));
    EXPECT_TRUE(chunks[i].text.starts_with("| aaaa") && chunks[i].text.ends_with("bbbb |"));
  }
  const auto html =
      MustChunk("<h1>T</h1><table><tr><th>k<th>v" + Repeat("<tr><td>aaaa<td>bbbb", 60) + "</table>",
                "text/html", options);
  ASSERT_GE(html.size(), 3u);
  EXPECT_THAT(html[1].heading_path, ElementsAre("T", "k | v"));
  EXPECT_TRUE(html[1].text.starts_with("aaaa | bbbb\n"));
}

TEST(ChunkerTest, EmbeddingTextIsContextThenText) {
  Chunk chunk;
  chunk.text = "body";
  EXPECT_EQ(EmbeddingText(chunk, ""), "body");
  EXPECT_EQ(EmbeddingText(chunk, "Title"), "Title\nbody");
  chunk.heading_path = {"Title", "B", "C"};
  EXPECT_EQ(EmbeddingText(chunk, "Title"), "Title > B > C\nbody");
  EXPECT_EQ(EmbeddingText(chunk, "Doc"), "Doc > Title > B > C\nbody");
  // Too long: the innermost heading and the title stay, cut between characters.
  chunk.heading_path = {Repeat("a", 100), Repeat("中", 100), Repeat("c", 50)};
  const std::string text = EmbeddingText(chunk, "Doc");
  EXPECT_LE(text.size(), 245u);
  EXPECT_TRUE(text.starts_with("Doc > "));
  EXPECT_TRUE(text.ends_with(Repeat("c", 50) + "\nbody"));
  EXPECT_TRUE(IsValidUtf8(text));
}

// Known fault of others: text without spaces or punctuation seen as one word, over every limit.
TEST(ChunkerTest, HundredKilobytesWithoutPunctuationAreCutWithinTheLimit) {
  for (const std::string& source :
       {Repeat("服务器默认端口连接数量超时时间", 2300), Repeat("abcdefgh", 12'500),
        Repeat("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB", 9000),
        Repeat("\xF0\x9F\x87\xA8\xF0\x9F\x87\xB3", 12'500)}) {
    FakeCounter counter;
    const auto chunks = MustChunk(source, "text/plain", {}, &counter);
    EXPECT_GE(chunks.size(), 50u);
    size_t largest = 0;
    for (const Chunk& chunk : chunks) largest = std::max(largest, chunk.text.size());
    EXPECT_LE(counter.calls, 20);
    EXPECT_LE(counter.bytes, 5 * source.size());
  }
}

TEST(ChunkerTest, WordsAreNotCutWhereTheyNeedNotBe) {
  ChunkOptions options;
  options.target_tokens = 32;
  const auto chunks = MustChunk(Repeat("alpha beta gamma delta ", 200), "text/plain", options);
  EXPECT_GE(chunks.size(), 20u);
  for (const Chunk& chunk : chunks) {
    for (const char* word : {"alpha", "beta", "gamma", "delta"}) {
      if (chunk.text.starts_with(word)) goto starts;
    }
    ADD_FAILURE() << chunk.text;
  starts:;
  }
}

TEST(ChunkerTest, OneClusterOverTheWindowIsCutBetweenCodePoints) {
  ChunkOptions options;
  options.max_tokens = 64;
  options.target_tokens = 32;
  const auto chunks =
      MustChunk("a" + Repeat("\xCC\x81", 1000), "text/plain", options, nullptr, false);
  EXPECT_GE(chunks.size(), 1000u / 64);
}

TEST(ChunkerTest, LargeDocumentsTakeFewCallsAndLinearWork) {
  std::string source;
  for (int i = 0; i < 3000; ++i) {
    StrAppend(&source, "## Section ", i, "\n\n", Repeat("A sentence of some words. ", 40), "\n\n");
  }
  FakeCounter counter;
  MustChunk(source, "text/markdown", {}, &counter, false);
  EXPECT_LE(counter.bytes, 6 * source.size());
  EXPECT_LE(counter.calls, 200);  // 3.2 MB in batches of 256 KiB, a handful of passes
}

TEST(ChunkerTest, TheSameInputGivesTheSameChunksAndIds) {
  const std::string source = "# A\n\n" + Repeat("one two three. ", 300);
  const auto document = ParseDocument(source, "text/markdown");
  FakeCounter counter;
  const auto a = ChunkDocument(*document, "doc", "sha", counter.function());
  const auto b = ChunkDocument(*document, "doc", "sha", counter.function());
  const auto other_id = ChunkDocument(*document, "doc2", "sha", counter.function());
  const auto other_bytes = ChunkDocument(*document, "doc", "sha2", counter.function());
  ASSERT_TRUE(a.ok() && b.ok() && other_id.ok() && other_bytes.ok());
  ASSERT_GE(a->size(), 2u);
  for (size_t i = 0; i < a->size(); ++i) {
    EXPECT_EQ((*a)[i].chunk_id, (*b)[i].chunk_id);
    EXPECT_EQ((*a)[i].text, (*b)[i].text);
    EXPECT_EQ((*a)[i].parent_id, (*a)[0].parent_id);
    EXPECT_NE((*a)[i].chunk_id, (*other_id)[i].chunk_id);
    EXPECT_NE((*a)[i].chunk_id, (*other_bytes)[i].chunk_id);
  }
  // Pinned, because ids are stored: a change of the hash is a change of the format.
  EXPECT_EQ((*a)[0].chunk_id, "f817cdf13ef4ee60f44b424bcc93f921");
}

TEST(ChunkerTest, LongHeadingsAndTitlesDoNotBlowUp) {
  const std::string source = "# " + Repeat("Title ", 5000) + "\n\n" + Repeat("text here. ", 500) +
                             "\n\n|" + Repeat(" column |", 200) + "\n|" + Repeat("-|", 200) + "\n" +
                             Repeat("|" + Repeat("x|", 200) + "\n", 10);
  for (const Chunk& chunk : MustChunk(source, "text/markdown")) {
    for (const std::string& heading : chunk.heading_path) EXPECT_LE(heading.size(), 256u);
  }
}

TEST(ChunkerTest, ErrorsAreReported) {
  const auto document = ParseDocument("some text. And more.", "text/plain");
  FakeCounter counter;
  ChunkOptions options;
  options.max_tokens = 8;
  EXPECT_EQ(ChunkDocument(*document, "d", "s", counter.function(), options).status().code(),
            absl::StatusCode::kFailedPrecondition);
  auto failing = [](std::span<const std::string_view>) -> absl::StatusOr<std::vector<int>> {
    return absl::UnavailableError("down");
  };
  EXPECT_EQ(ChunkDocument(*document, "d", "s", failing).status().code(),
            absl::StatusCode::kUnavailable);
  auto short_answer = [](std::span<const std::string_view>) -> absl::StatusOr<std::vector<int>> {
    return std::vector<int>();
  };
  EXPECT_EQ(ReasonOf(ChunkDocument(*document, "d", "s", short_answer).status()), "BAD_EMBEDDER");
  ChunkOptions few;
  few.max_chunks = 2;
  const auto large = ParseDocument(Repeat("# h\ntext\n", 3), "text/markdown");
  EXPECT_EQ(ReasonOf(ChunkDocument(*large, "d", "s", counter.function(), few).status()),
            kReasonTooLarge);
}

// A counter whose parts add up to less than the whole: the finished chunk decides.
TEST(ChunkerTest, ChunksAreVerifiedWhole) {
  auto counter = [](std::span<const std::string_view> texts) -> absl::StatusOr<std::vector<int>> {
    std::vector<int> out;
    for (const std::string_view text : texts) {
      const int tokens = FakeTokens(text);
      out.push_back(tokens > 120 ? tokens * 3 : tokens);
    }
    return out;
  };
  const std::string source = Repeat("A sentence here. ", 400);
  const auto document = ParseDocument(source, "text/plain");
  ChunkOptions options;
  options.max_tokens = 300;
  const auto chunks = ChunkDocument(*document, "d", "s", counter, options);
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  for (const Chunk& chunk : *chunks) EXPECT_LE(chunk.token_count, 300);
}

TEST(ChunkerTest, EveryRealDocumentIsCoveredInOrder) {
  const char* data = std::getenv("CAIRN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "CAIRN_TEST_DATA is not set";
  size_t total = 0;
  for (const char* folder : {"brpc/en", "brpc/zh", "pisa"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(data) + "/documents/" + folder)) {
      SCOPED_TRACE(entry.path().string());
      const auto source = ReadFile(entry.path().string());
      ASSERT_TRUE(source.ok());
      const auto chunks = MustChunk(*source, *ResolveMediaType("", entry.path().string(), *source));
      // Only the link to the Chinese page is Chinese in an English one.
      for (const Chunk& chunk : chunks) {
        if (std::string_view(folder) == "brpc/zh" || chunk.text.size() < 100) continue;
        EXPECT_NE(chunk.language, "zh") << chunk.text;
      }
      total += chunks.size();
    }
  }
  EXPECT_GE(total, 500u);
  RecordProperty("chunks", static_cast<int>(total));
}

TEST(LanguageTest, ByScript) {
  EXPECT_EQ(LanguageOf("The default timeout"), "en");
  EXPECT_EQ(LanguageOf("使用 bRPC 的 Server 和 Channel"), "zh");
  EXPECT_EQ(LanguageOf("a page about 中文 in many English words and then some more words"), "en");
  EXPECT_EQ(LanguageOf("123 + 456"), "");
  EXPECT_EQ(LanguageOf("これは日本語の文章です"), "");
  EXPECT_EQ(LanguageOf(""), "");
}

}  // namespace
}  // namespace cairn::retrieval
