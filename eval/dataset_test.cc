#include "eval/dataset.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"

namespace cairn::eval {
namespace {

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() : dir_(testing::TempDir() + "/cairn_dataset_test") {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    Write("corpus.jsonl",
          "{\"_id\":\"1\",\"title\":\"T\",\"text\":\"x\"}\n{\"_id\":\"2\",\"text\":\"y\"}\n");
    Write("queries.jsonl",
          "{\"_id\":\"q\",\"text\":\"?\"}\n{\"_id\":\"unjudged\",\"text\":\"?\"}\n");
    Write("qrels.tsv", "query-id\tcorpus-id\tscore\nq\t1\t2\nq\t9\t1\n");
  }
  void Write(const std::string& name, std::string_view text) {
    ASSERT_TRUE(WriteFileAtomic(dir_ + "/" + name, text).ok());
  }
  absl::Status Load() {
    size_t missing;
    return LoadDataset(dir_, &missing).status();
  }
  std::string dir_;
};

TEST_F(DatasetTest, LoadsAndCountsWhatIsMissing) {
  size_t missing = 0;
  auto data = LoadDataset(dir_, &missing);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->corpus.size(), 2u);
  EXPECT_EQ(data->queries.size(), 1u);
  EXPECT_EQ(data->qrels["q"]["1"], 2);
  EXPECT_EQ(missing, 1u);
}

TEST_F(DatasetTest, ErrorsNameFileAndLine) {
  Write("qrels.tsv", "q\t1\tmany\n");
  EXPECT_NE(Load().message().find("qrels.tsv:1"), absl::string_view::npos);
  Write("qrels.tsv", "other\t1\t1\n");
  EXPECT_NE(Load().message().find("other"), absl::string_view::npos);
  Write("corpus.jsonl", "{\"_id\":\"1\",\"text\":\"x\"}\n[]\n");
  EXPECT_NE(Load().message().find("corpus.jsonl:2"), absl::string_view::npos);
  Write("corpus.jsonl", "{\"_id\":\"1\",\"text\":\"x\"}\n{\"_id\":\"1\",\"text\":\"x\"}\n");
  EXPECT_NE(Load().message().find("twice"), absl::string_view::npos);
  std::filesystem::remove(dir_ + "/corpus.jsonl");
  EXPECT_EQ(Load().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn::eval
