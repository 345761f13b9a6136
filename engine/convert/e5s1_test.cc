#include "engine/convert/e5s1.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/convert/test_files.h"
#include "engine/gguf/gguf.h"

namespace cairn::engine {
namespace {

using testing::AsBytes;
using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kFeedForward;
using testing::kHidden;
using testing::kPositions;
using testing::kWords;

const BertTraits kTraits = {"tiny", "MIT", "mean", kPositions, 2, 1e-12f, "query: ", "passage: "};

struct TensorSpec {
  std::string name;
  bool quantised;
  uint32_t elements;
};

std::vector<TensorSpec> TensorSpecs() {
  std::vector<TensorSpec> specs = {{"emb.word", true, kWords * kHidden},
                                   {"emb.pos", false, kPositions * kHidden},
                                   {"emb.type", false, 2 * kHidden},
                                   {"emb.ln.w", false, kHidden},
                                   {"emb.ln.b", false, kHidden}};
  for (const char* name : {"l0.q", "l0.k", "l0.v", "l0.ao"}) {
    specs.push_back({std::string(name) + ".w", true, kHidden * kHidden});
    specs.push_back({std::string(name) + ".b", false, kHidden});
  }
  for (const char* name : {"l0.aln.w", "l0.aln.b", "l0.oln.w", "l0.oln.b"})
    specs.push_back({name, false, kHidden});
  specs.push_back({"l0.fi.w", true, kFeedForward * kHidden});
  specs.push_back({"l0.fi.b", false, kFeedForward});
  specs.push_back({"l0.fo.w", true, kHidden * kFeedForward});
  specs.push_back({"l0.fo.b", false, kHidden});
  return specs;
}

// A whole file; every data byte of tensor i is i.
std::string MakeFile() {
  Bytes file;
  file.Text("E5S1").Put<uint32_t>(1);
  for (const int32_t value : {kHidden, 1, 2, kFeedForward, kWords, kPositions, 2}) file.Put(value);
  file.Put(1e-12f).Put<int32_t>(32);

  const std::vector<std::string> pieces = {"<s>",     "<pad>", "</s>",  "<unk>",
                                           "\u2581a", "b",     "<mask>"};
  file.Put<int32_t>(static_cast<int32_t>(pieces.size()));
  for (const int32_t id : {0, 2, 1, 3}) file.Put(id);
  std::string blob;
  Bytes offsets;
  for (const std::string& piece : pieces) {
    offsets.Put<uint32_t>(static_cast<uint32_t>(blob.size()));
    blob += piece;
  }
  offsets.Put<uint32_t>(static_cast<uint32_t>(blob.size()));
  file.Put<uint64_t>(blob.size()).Text(offsets.str());
  for (const float score : {0.f, 0.f, 0.f, 0.f, -1.5f, -2.5f, 0.f}) file.Put(score);
  file.Text(blob);

  // U+0001 is deleted, U+FB01 (the ligature fi) becomes two letters.
  file.Put<int32_t>(2).Put<uint32_t>(4 + 1 + 4 + 1 + 8);
  file.Put<uint32_t>(1).Put<uint8_t>(0);
  file.Put<uint32_t>(0xFB01).Put<uint8_t>(2).Put<uint32_t>('f').Put<uint32_t>('i');

  const std::vector<TensorSpec> specs = TensorSpecs();
  file.Put<int32_t>(static_cast<int32_t>(specs.size()));
  uint64_t directory_size = 0;
  for (const TensorSpec& spec : specs) directory_size += 2 + spec.name.size() + 1 + 4 + 8 + 8;
  uint64_t offset = (file.size() + directory_size + 63) / 64 * 64;
  std::vector<uint64_t> sizes;
  for (const TensorSpec& spec : specs) {
    const uint64_t size = spec.quantised ? spec.elements / 32 * 18 : spec.elements * 4;
    file.Put<uint16_t>(static_cast<uint16_t>(spec.name.size())).Text(spec.name);
    file.Put<uint8_t>(spec.quantised).Put(spec.elements).Put(offset).Put(size);
    offset = (offset + size + 63) / 64 * 64;
    sizes.push_back(size);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    file.AlignTo(64);
    file.Text(std::string(sizes[i], static_cast<char>(i)));
  }
  return file.str();
}

TEST(E5s1Test, BecomesGgufWithTheSameBlocks) {
  const std::string bytes = MakeFile();
  absl::StatusOr<E5s1File> file = ParseE5s1(AsBytes(bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->norm_from, ElementsAre(1, 0xFB01));
  EXPECT_THAT(file->norm_to, ElementsAre("", "fi"));

  GgufWriter writer;
  ASSERT_TRUE(AddBert(kTraits, file->tensors, &writer).ok());
  AddE5s1Vocabulary(*file, &writer);
  const auto serialized = writer.Serialize();
  ASSERT_TRUE(serialized.ok()) << serialized.status();
  const auto gguf = GgufFile::Parse(AsBytes(*serialized));
  ASSERT_TRUE(gguf.ok()) << gguf.status();

  EXPECT_EQ((*gguf)->GetString("general.architecture").value(), "bert");
  EXPECT_EQ((*gguf)->GetInt("bert.block_count").value(), 1);
  EXPECT_EQ((*gguf)->GetInt("bert.pooling_type").value(), 1);
  EXPECT_EQ((*gguf)->GetString("cairn.embedding.query_prefix").value(), "query: ");
  EXPECT_THAT((*gguf)->GetInts("tokenizer.ggml.token_type").value(),
              ElementsAre(3, 3, 3, 2, 1, 1, 3));

  const GgufTensor* ffn_down = (*gguf)->FindTensor("blk.0.ffn_down.weight");
  ASSERT_NE(ffn_down, nullptr);
  EXPECT_EQ(ffn_down->type, kernels::DType::kQ4_0);
  EXPECT_THAT(ffn_down->dims, ElementsAre(kFeedForward, kHidden));
  const std::vector<TensorSpec> specs = TensorSpecs();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name != "l0.fo.w") continue;
    EXPECT_EQ(std::string(ffn_down->data.begin(), ffn_down->data.end()),
              std::string(kHidden * kFeedForward / 32 * 18, static_cast<char>(i)));
  }
}

TEST(E5s1Test, DamagedFilesAreRefused) {
  const auto parse = [](std::span<const uint8_t> bytes) {
    const auto file = ParseE5s1(bytes);
    if (!file.ok()) {
      EXPECT_FALSE(file.status().message().empty());
      return false;
    }
    GgufWriter writer;
    return AddBert(kTraits, file->tensors, &writer).ok();
  };
  EXPECT_EQ(testing::FeedDamaged(MakeFile(), parse), 0) << "a truncated file was accepted";
}

TEST(E5s1Test, OverlapsAndUnknownTensorsAreRefused) {
  std::string bytes = MakeFile();
  std::string renamed = bytes;
  renamed.replace(renamed.find("l0.fo.w"), 7, "l1.fo.w");
  EXPECT_THAT(std::string(ParseE5s1(AsBytes(renamed)).status().message()),
              HasSubstr("unknown or repeated"));

  const size_t entry = bytes.find("emb.pos") + 7 + 1 + 4;  // its offset field
  uint64_t first;
  std::memcpy(&first, bytes.data() + bytes.find("emb.word") + 8 + 1 + 4, 8);
  std::memcpy(bytes.data() + entry, &first, 8);
  EXPECT_THAT(std::string(ParseE5s1(AsBytes(bytes)).status().message()), HasSubstr("overlaps"));
}

}  // namespace
}  // namespace cairn::engine
