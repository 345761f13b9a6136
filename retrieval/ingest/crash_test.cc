// Kills an ingesting process with SIGKILL at random moments, 25 times, and lets the next one go on.
// Whenever one comes to its end, every put that was answered is committed exactly once and no
// document is half there.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "retrieval/ingest/ingest_test_util.h"
#include "retrieval/ingest/ingestor.h"

namespace cairn::retrieval {
namespace {

constexpr int kDocuments = 12;
constexpr int kKills = 25;

void AppendLine(const std::string& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  const std::string bytes = line + "\n";
  ASSERT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(fd);
}

std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// A sink on disk: one file a document, replaced atomically.
class FileSink : public DocumentSink {
 public:
  explicit FileSink(std::string dir) : dir_(std::move(dir)) {}

  absl::StatusOr<DocumentInfo> Find(const RequestContext&, std::string_view collection,
                                    std::string_view id) override {
    const auto bytes = ReadFile(dir_ + "/" + std::string(id));
    if (!bytes.ok()) return absl::NotFoundError("none");
    std::istringstream in(*bytes);
    DocumentInfo info;
    info.collection = std::string(collection);
    info.document_id = std::string(id);
    in >> info.version >> info.content_sha256 >> info.num_chunks >> info.media_type;
    return info;
  }
  absl::StatusOr<DocumentInfo> Commit(const RequestContext& context,
                                      const DocumentVersion& document) override {
    DocumentInfo info = document.info;
    const auto old = Find(context, info.collection, info.document_id);
    info.version = old.ok() ? old->version + 1 : 1;
    absl::SleepFor(absl::Milliseconds(2));
    CAIRN_RETURN_IF_ERROR(WriteFileAtomic(
        dir_ + "/" + info.document_id, StrCat(info.version, " ", info.content_sha256, " ",
                                              document.vectors.size() / 4, " ", info.media_type)));
    absl::SleepFor(absl::Milliseconds(2));  // time to be killed before the job hears of it
    return info;
  }
  absl::StatusOr<int> Delete(const RequestContext&, std::string_view, std::string_view) override {
    return absl::UnimplementedError("not used");
  }

 private:
  const std::string dir_;
};

std::string Document(int number, int edition) {
  std::string out = StrCat("# Document ", number, " edition ", edition, "\n\n");
  for (int i = 0; i < 20; ++i)
    StrAppend(&out, "## Part ", i, "\n\nWords of ", number, " part ", i, ".\n\n");
  return out;
}

// The child: goes on with what is queued, puts what is not yet put, waits for all of it.
void Ingest(const std::string& dir) {
  FakeEmbedder embedder;
  embedder.before_batch = [](const RequestContext&, int) {
    absl::SleepFor(absl::Milliseconds(1));
    return absl::OkStatus();
  };
  FileSink sink(dir + "/sink");
  IngestOptions options;
  options.embed_batch_size = 4;
  auto ingestor = Ingestor::Open(dir + "/ingest", options, &embedder, &sink);
  if (!ingestor.ok()) _exit(3);
  const RequestContext context = RequestContext::Background();
  const auto lines = ReadLines(dir + "/put");
  const std::set<std::string> put(lines.begin(), lines.end());
  for (int edition = 1; edition <= 2; ++edition) {
    for (int i = 0; i < kDocuments; ++i) {
      const std::string name = StrCat(i, ".", edition);
      if (put.contains(name)) continue;
      auto spool = (*ingestor)->NewSpool();
      if (!spool.ok() || !(*spool)->Append(Document(i, edition)).ok() || !(*spool)->Finish().ok())
        _exit(4);
      const auto job =
          (*ingestor)->Put(context, {"c", StrCat(i, ".md"), "", {}, *std::move(spool)});
      if (!job.ok()) _exit(5);
      AppendLine(dir + "/put", name);
    }
  }
  for (const Job& job : (*ingestor)->ListJobs({"", "", true, 1000})) {
    const auto done = (*ingestor)->WatchJob(context, job.id, [](const Job&) { return true; });
    if (!done.ok()) _exit(6);
  }
  for (const Job& job : (*ingestor)->ListJobs({"", "", false, 1000})) {
    if (job.state != JobState::kSucceeded) _exit(7);
  }
  _exit(0);
}

// Every document is at its second edition, whole, after one commit for each edition and no more.
void ExpectAllCommittedOnce(const std::string& dir) {
  FileSink sink(dir + "/sink");
  for (int i = 0; i < kDocuments; ++i) {
    const std::string id = StrCat(i, ".md");
    const auto info = sink.Find(RequestContext::Background(), "c", id);
    ASSERT_TRUE(info.ok()) << id;
    EXPECT_EQ(info->content_sha256, Sha256Hex(Document(i, 2))) << id;
    EXPECT_EQ(info->num_chunks, 20u) << id;
    EXPECT_EQ(info->version, 2u) << id;
  }
}

TEST(CrashTest, EveryAnsweredPutIsCommittedOnceThoughTheProcessIsKilled) {
  std::string dir = ::testing::TempDir() + "/crash-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  std::filesystem::create_directories(dir + "/sink");
  std::mt19937 random(11);
  // A process that comes to its end before its kill leaves nothing to recover: its work is checked
  // and the next one starts afresh. The last process is not killed.
  for (int kills = 0, round = 0, last = false; !last; ++round) {
    ASSERT_LT(round, 400) << "only " << kills << " kills hit";
    last = kills == kKills;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) Ingest(dir);
    if (!last) {
      absl::SleepFor(absl::Microseconds(random() % 60'000));
      kill(child, SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ASSERT_FALSE(last) << "died of signal " << WTERMSIG(status);
      ++kills;
      continue;
    }
    ASSERT_EQ(WEXITSTATUS(status), 0);
    ASSERT_NO_FATAL_FAILURE(ExpectAllCommittedOnce(dir));
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir + "/sink");
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace cairn::retrieval
