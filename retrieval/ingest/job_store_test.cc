#include "retrieval/ingest/job_store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "common/file.h"
#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retrieval/ingest/vector_file.h"

namespace cairn::retrieval {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string TempDir() {
  std::string dir = ::testing::TempDir() + "/ingest-XXXXXX";
  return mkdtemp(dir.data());
}

StoredJob SampleJob() {
  StoredJob stored;
  Job& job = stored.job;
  job.id = "0000000000000001";
  job.collection = "c";
  job.document_id = "a/../\"b\" 中文.md";
  job.media_type = "text/markdown";
  job.metadata = {{"s", std::string("x")}, {"i", int64_t{-7}}, {"d", 1.0}, {"b", true}};
  job.sha256 = "ab";
  job.source_bytes = 12;
  job.chunk_tokens = 64;
  job.state = JobState::kFailed;
  job.stage = JobStage::kDone;
  job.error = WithReason(absl::InvalidArgumentError("bad \xFF byte"), "SOME_REASON");
  job.attempts = 3;
  job.created_at = absl::FromUnixMicros(1700000000000001);
  job.updated_at = absl::FromUnixMicros(1700000000000002);
  stored.commit_begun = true;
  stored.base_version = 4;
  stored.failures = 2;
  stored.interruptions = 1;
  stored.vectors_bytes = 99;
  return stored;
}

TEST(JobJsonTest, KeepsEveryField) {
  const StoredJob before = SampleJob();
  const auto after = JobFromJson(JobToJson(before));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(JobToJson(*after), JobToJson(before));
  EXPECT_EQ(after->job.metadata, before.job.metadata);
  EXPECT_EQ(after->job.document_id, before.job.document_id);
  EXPECT_EQ(after->job.state, JobState::kFailed);
  EXPECT_EQ(after->job.error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(after->job.error), "SOME_REASON");
  EXPECT_EQ(after->job.created_at, before.job.created_at);
  EXPECT_TRUE(after->commit_begun);
  EXPECT_EQ(after->base_version, 4u);
}

TEST(JobJsonTest, BrokenJobsAreErrors) {
  const std::string good = JobToJson(SampleJob());
  for (const char* bad : {"", "{}", "[]", "null", "{\"format\":2}", "{\"format\":\"1\"}"}) {
    EXPECT_FALSE(JobFromJson(bad).ok()) << bad;
  }
  for (size_t size = 0; size + 2 < good.size(); size += 7) {
    EXPECT_FALSE(JobFromJson(good.substr(0, size)).ok());
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    (void)JobFromJson(bad);  // any answer but a crash
  }
}

TEST(JobStoreTest, KeepsJobsAndRemovesWhatIsHalfMade) {
  const std::string dir = TempDir();
  {
    auto store = JobStore::Open(dir);
    ASSERT_TRUE(store.ok()) << store.status();
    auto spool = SourceSpool::Create((*store)->spool_dir(), 100);
    ASSERT_TRUE((*spool)->Append("hello ").ok());
    ASSERT_TRUE((*spool)->Append("world!").ok());
    ASSERT_TRUE((*spool)->Finish().ok());
    EXPECT_EQ((*spool)->sha256(), Sha256Hex("hello world!"));
    ASSERT_TRUE((*store)->Add(SampleJob(), spool->get()).ok());
    // What a crash during an upload and during Add leaves.
    std::ofstream((*store)->spool_dir() + "/put-abc") << "half";
    std::filesystem::create_directories(dir + "/jobs/0000000000000002.new");
    // What a disk error leaves.
    std::filesystem::create_directories(dir + "/jobs/0000000000000003");
    std::ofstream(dir + "/jobs/0000000000000003/job.json") << "{";
  }
  auto store = JobStore::Open(dir);
  ASSERT_TRUE(store.ok());
  const auto jobs = (*store)->Load();
  ASSERT_TRUE(jobs.ok());
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_EQ((*jobs)[0].job.id, "0000000000000001");
  EXPECT_EQ(*ReadFile((*store)->SourcePath("0000000000000001")), "hello world!");
  EXPECT_TRUE(std::filesystem::is_empty((*store)->spool_dir()));
  EXPECT_FALSE(std::filesystem::exists(dir + "/jobs/0000000000000002.new"));
  EXPECT_TRUE(std::filesystem::exists(dir + "/jobs/0000000000000003"));
}

TEST(SourceSpoolTest, LimitsTheSizeAndRemovesItsFile) {
  const std::string dir = TempDir();
  {
    auto spool = SourceSpool::Create(dir, 10);
    ASSERT_TRUE(spool.ok());
    EXPECT_TRUE((*spool)->Append("1234567890").ok());
    const absl::Status status = (*spool)->Append("x");
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(status), kReasonTooLarge);
    EXPECT_FALSE(std::filesystem::is_empty(dir));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  EXPECT_FALSE(SourceSpool::Create(dir + "/missing", 10).ok());
}

TEST(VectorFileTest, GivesBackWholeRecordsOfTheSameKey) {
  const std::string path = TempDir() + "/vectors";
  std::vector<float> vectors;
  {
    auto file = VectorFile::Open(path, "key", 2, &vectors);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(vectors, IsEmpty());
    ASSERT_TRUE((*file)->Append(std::vector<float>{1, 2, 3, 4}).ok());
    ASSERT_TRUE((*file)->Append(std::vector<float>{5, 6}).ok());
  }
  ASSERT_TRUE(VectorFile::Open(path, "key", 2, &vectors).ok());
  EXPECT_THAT(vectors, ElementsAre(1, 2, 3, 4, 5, 6));
  // Any cut leaves a prefix of whole records, and appending goes on from there.
  const std::string whole = *ReadFile(path);
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, size);
    {
      auto file = VectorFile::Open(path, "key", 2, &vectors);
      ASSERT_TRUE(file.ok());
      ASSERT_TRUE(vectors.size() == 0 || vectors.size() == 4 || vectors.size() == 6) << size;
      ASSERT_TRUE((*file)->Append(std::vector<float>{7, 8}).ok());
    }
    const size_t before = vectors.size();
    ASSERT_TRUE(VectorFile::Open(path, "key", 2, &vectors).ok());
    ASSERT_EQ(vectors.size(), before + 2);
    ASSERT_EQ(vectors.back(), 8);
  }
  // Any flipped byte drops its record and what follows.
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::ofstream(path, std::ios::trunc) << bad;
    ASSERT_TRUE(VectorFile::Open(path, "key", 2, &vectors).ok());
    ASSERT_LT(vectors.size(), 6u) << at;
  }
  for (const auto& [key, dimension] : {std::pair{"other", 2}, std::pair{"key", 3}}) {
    std::ofstream(path, std::ios::trunc) << whole;
    ASSERT_TRUE(VectorFile::Open(path, key, dimension, &vectors).ok());
    EXPECT_THAT(vectors, IsEmpty());
  }
}

}  // namespace
}  // namespace cairn::retrieval
