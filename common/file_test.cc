#include "common/file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace cairn {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() : dir_(testing::TempDir() + "/cairn_file_test") {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  std::string dir_;
};

TEST_F(FileTest, WriteThenReadThenMap) {
  const std::string path = dir_ + "/a";
  ASSERT_TRUE(WriteFileAtomic(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "two").ok());
  EXPECT_EQ(*ReadFile(path), "two");
  EXPECT_EQ((*MappedFile::Open(path))->bytes().size(), 3u);
  EXPECT_EQ(ReadFile(path, 2).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(FileTest, ErrorsNameThePath) {
  absl::Status missing = ReadFile(dir_ + "/none").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.message().find(dir_), std::string::npos);
  EXPECT_EQ(ReadFile(dir_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteFileAtomic(dir_ + "/no/such", "x").code(), absl::StatusCode::kNotFound);
}

TEST_F(FileTest, EmptyFileMaps) {
  ASSERT_TRUE(WriteFileAtomic(dir_ + "/empty", "").ok());
  EXPECT_TRUE((*MappedFile::Open(dir_ + "/empty"))->bytes().empty());
}

TEST_F(FileTest, DirectoryLockIsExclusive) {
  auto first = DirectoryLock::Acquire(dir_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ReasonOf(DirectoryLock::Acquire(dir_).status()), "DATA_DIRECTORY_LOCKED");
  first->reset();
  EXPECT_TRUE(DirectoryLock::Acquire(dir_).ok());
}

// The published test vector of FIPS 180-2 for "abc".
TEST_F(FileTest, Sha256MatchesThePublishedVector) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace cairn
