#include "retrieval/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/strings.h"

namespace cairn::retrieval {
namespace {

using testing::ElementsAre;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cairn_store_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~StoreTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<Store> Open() {
    auto store = Store::Open(dir_, 1 << 20);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? std::move(*store) : nullptr;
  }
  static std::vector<std::string> Keys(Store* store, std::string_view prefix,
                                       std::string_view after = "") {
    std::vector<std::string> keys;
    EXPECT_TRUE(store
                    ->Scan(*store->TakeSnapshot(), Table::kChunks, prefix, after,
                           [&](std::string_view key, std::string_view) -> absl::StatusOr<bool> {
                             keys.emplace_back(key);
                             return true;
                           })
                    .ok());
    return keys;
  }

  std::string dir_;
};

TEST_F(StoreTest, BatchesAreKeptAndScannedInOrder) {
  {
    auto store = Open();
    Store::Batch batch;
    for (const char* key : {"b1", "a", "b2", "b", "c"})
      batch.Put(Table::kChunks, key, StrCat("v", key));
    ASSERT_TRUE(store->Write(batch, true).ok());
    EXPECT_THAT(Keys(store.get(), "b"), ElementsAre("b", "b1", "b2"));
    EXPECT_THAT(Keys(store.get(), "b", "b1"), ElementsAre("b2"));
  }
  auto store = Open();
  EXPECT_EQ(*store->Get(*store->TakeSnapshot(), Table::kChunks, "b1"), "vb1");
  EXPECT_EQ(store->Get(*store->TakeSnapshot(), Table::kTerms, "b1").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, SnapshotsDoNotMove) {
  auto store = Open();
  Store::Batch first, second;
  first.Put(Table::kChunks, "k", "old");
  ASSERT_TRUE(store->Write(first, false).ok());
  const auto snapshot = store->TakeSnapshot();
  second.Delete(Table::kChunks, "k");
  second.Put(Table::kChunks, "k2", "new");
  ASSERT_TRUE(store->Write(second, false).ok());
  EXPECT_EQ(*store->Get(*snapshot, Table::kChunks, "k"), "old");
  EXPECT_FALSE(store->Get(*snapshot, Table::kChunks, "k2").ok());
  EXPECT_THAT(Keys(store.get(), ""), ElementsAre("k2"));
}

TEST_F(StoreTest, DeletePrefixTakesThatPrefixAlone) {
  auto store = Open();
  Store::Batch batch;
  const std::string prefix("\x00\x00\x00\xFF", 4), next("\x00\x00\x01\x00", 4);
  batch.Put(Table::kChunks, prefix + "a", "");
  batch.Put(Table::kChunks, prefix + std::string(3, '\xFF'), "");
  batch.Put(Table::kChunks, next + "a", "");
  ASSERT_TRUE(store->Write(batch, false).ok());
  Store::Batch erase;
  erase.DeletePrefix(Table::kChunks, prefix);
  ASSERT_TRUE(store->Write(erase, false).ok());
  EXPECT_THAT(Keys(store.get(), ""), ElementsAre(next + "a"));
}

// Bits that rot in a table file are found, not served.
TEST_F(StoreTest, RottenBytesAreDataLoss) {
  {
    auto store = Open();
    Store::Batch batch;
    for (int k = 0; k < 200; ++k) {
      batch.Put(Table::kChunks, StrCat("key", k),
                std::string(500, static_cast<char>('a' + k % 26)));
    }
    ASSERT_TRUE(store->Write(batch, true).ok());
  }
  Open();  // replays the log into table files
  size_t num_changed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('\x5A');
    file.put('\xA5');
    ++num_changed;
  }
  ASSERT_GT(num_changed, 0u);
  auto store = Store::Open(dir_, 1 << 20);
  if (!store.ok()) {
    EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
    return;
  }
  const absl::Status status = (*store)->Scan(
      *(*store)->TakeSnapshot(), Table::kChunks, "", "",
      [](std::string_view, std::string_view) -> absl::StatusOr<bool> { return true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

}  // namespace
}  // namespace cairn::retrieval
