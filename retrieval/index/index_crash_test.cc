// A process that commits documents is killed with SIGKILL at random moments. Afterwards every
// acknowledged document is there, whole and not older than acknowledged, and nothing is half there.
//
// The child is this program itself (a forked copy would lack the store's threads). It writes a line
// "document version" to its standard output after each acknowledged commit, "document -1" after
// each delete.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "retrieval/index/index_test_util.h"

namespace cairn::retrieval {
namespace {

constexpr int kKills = 20;
constexpr uint32_t kDocuments = 12;
constexpr int kDeleted = -1;

// Commit number `n` of a document. Some are large enough for several source blocks.
DocumentVersion Content(const FakeEmbedder& embedder, uint32_t document, uint32_t n) {
  std::vector<std::string> texts;
  const uint32_t num_chunks = 1 + (document + n) % 5;
  for (uint32_t i = 0; i < num_chunks; ++i) {
    const uint64_t padding = (uint64_t{7919} * document + uint64_t{104729} * n) % 60000;
    texts.push_back(StrCat("document ", document, " commit ", n, " chunk ", i, " of ", num_chunks,
                           " ", std::string(padding, 'x')));
  }
  return embedder.Embed(MakeDocument("docs", StrCat("d", document), texts, {{"n", int64_t{n}}}));
}

int RunChild(const std::string& dir, uint32_t seed) {
  const std::unique_ptr<Index> index = OpenIndex(dir, /*sync=*/true);
  if (index == nullptr) return 1;
  FakeEmbedder embedder(8);
  const RequestContext context = RequestContext::Background();
  if (!index->GetCollection("docs").ok()) {
    if (!index->CreateCollection({"docs", *embedder.Info(context)}).ok()) return 2;
  }
  std::mt19937 random(seed);
  for (uint32_t i = 0;; ++i) {
    const uint32_t document = static_cast<uint32_t>(random() % kDocuments);
    long long version = kDeleted;
    if (random() % 6 == 0) {
      if (!index->Delete(context, "docs", StrCat("d", document)).ok()) return 3;
    } else {
      const auto info = index->Commit(context, Content(embedder, document, seed * 100000 + i));
      if (!info.ok()) return 4;
      version = static_cast<long long>(std::get<int64_t>(info->metadata.at("n")));
    }
    const std::string line = StrCat(document, " ", version, "\n");
    if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      return 5;
  }
}

// Runs the child and kills it `after` its first acknowledgement; returns what it wrote.
std::string RunAndKill(const std::string& dir, uint32_t seed, std::chrono::microseconds after) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const std::string seed_text = std::to_string(seed);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/proc/self/exe", "index_crash_test", "--child", dir.c_str(), seed_text.c_str(), nullptr);
    _exit(9);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  ssize_t got = read(ends[0], buffer, sizeof buffer);
  if (got > 0) output.append(buffer, static_cast<size_t>(got));
  // The pipe holds 64 KiB; the child writes some ten bytes a commit, so it never waits for us.
  std::this_thread::sleep_for(after);
  kill(child, SIGKILL);
  while ((got = read(ends[0], buffer, sizeof buffer)) > 0)
    output.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself, status " << status;
  return output;
}

TEST(IndexCrash, AcknowledgedDocumentsSurviveAndNothingIsHalf) {
  const TempDir temp;
  FakeEmbedder embedder(8);
  const RequestContext context = RequestContext::Background();
  std::mt19937 random(20240607);
  std::map<uint32_t, long long> acknowledged;  // document -> its last acknowledged commit
  size_t num_acknowledged = 0;
  for (int round = 0; round < kKills; ++round) {
    const auto after = std::chrono::microseconds(random() % 150000);
    const std::string output = RunAndKill(temp.path(), static_cast<uint32_t>(round) + 1, after);
    const size_t whole = output.rfind('\n');
    ASSERT_NE(whole, std::string::npos) << "no commit was acknowledged";
    std::istringstream lines(output.substr(0, whole));
    uint32_t document;
    long long n;
    while (lines >> document >> n) {
      acknowledged[document] = n;
      ++num_acknowledged;
    }

    const std::unique_ptr<Index> index = OpenIndex(temp.path());
    ASSERT_NE(index, nullptr);
    const auto report = index->Verify(context);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_TRUE(report->problems.empty()) << report->problems[0];

    // One commit or delete may have been on its way: published but not acknowledged.
    int num_ahead = 0;
    for (uint32_t d = 0; d < kDocuments; ++d) {
      const std::string id = StrCat("d", d);
      const auto info = index->Find(context, "docs", id);
      const long long expected = acknowledged.contains(d) ? acknowledged[d] : kDeleted;
      const long long found =
          info.ok() ? static_cast<long long>(std::get<int64_t>(info->metadata.at("n"))) : kDeleted;
      if (found != expected) {
        ++num_ahead;
        ASSERT_TRUE(found == kDeleted || found > expected || expected == kDeleted)
            << id << " went back from commit " << expected << " to " << found;
        acknowledged[d] = found;
      }
      if (!info.ok()) continue;
      const DocumentVersion content = Content(embedder, d, static_cast<uint32_t>(found));
      EXPECT_EQ(*index->ReadSource(context, "docs", id, 0, {0, info->source_bytes}),
                content.source);
      const auto chunks = index->GetChunks(context, "docs", id);
      ASSERT_TRUE(chunks.ok()) << chunks.status();
      ASSERT_EQ(chunks->size(), content.chunks.size());
      SearchQuery query;
      query.collection = "docs";
      query.text = "document";
      query.top_k = 1000;
      query.filter = {{"document_id", Condition::Op::kEquals, {id}, {}, {}}};
      const auto result = index->Search(context, query, &embedder, nullptr);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->degraded.empty());
      EXPECT_EQ(result->hits.size(), content.chunks.size());
      for (size_t i = 0; i < chunks->size(); ++i)
        EXPECT_EQ((*chunks)[i].text, content.chunks[i].text);
    }
    ASSERT_LE(num_ahead, 1);
  }
  std::printf("%zu acknowledged commits and deletes over %d kills\n", num_acknowledged, kKills);
  EXPECT_GT(num_acknowledged, static_cast<size_t>(kKills));
}

}  // namespace
}  // namespace cairn::retrieval

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--child") {
    return cairn::retrieval::RunChild(argv[2], static_cast<uint32_t>(std::stoul(argv[3])));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
