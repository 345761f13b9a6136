#include "engine/gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "common/strings.h"
#include "engine/gguf/gguf_writer.h"

namespace cairn::engine {
namespace {

using kernels::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes the parts of a file one by one, so that each can be wrong.
class Bytes {
 public:
  template <typename T>
  Bytes& Put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& U32(uint32_t value) { return Put(value); }
  Bytes& U64(uint64_t value) { return Put(value); }
  Bytes& Text(std::string_view text) {
    U64(text.size());
    out_.append(text);
    return *this;
  }
  Bytes& Raw(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }
  Bytes& PadTo(size_t multiple) {
    out_.resize((out_.size() + multiple - 1) / multiple * multiple);
    return *this;
  }
  Bytes& Header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return Raw("GGUF").U32(version).U64(tensors).U64(keys);
  }
  // A tensor's entry in the directory.
  Bytes& Info(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    Text(name).U32(static_cast<uint32_t>(dims.size()));
    for (uint64_t dim : dims) U64(dim);
    return U32(type).U64(offset);
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

absl::StatusOr<std::unique_ptr<GgufFile>> Parse(const std::string& bytes) {
  return GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

void ExpectRefused(const Bytes& bytes, absl::StatusCode code, const std::string& message) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file = Parse(bytes.str());
  ASSERT_FALSE(file.ok()) << "expected: " << message;
  EXPECT_EQ(file.status().code(), code) << file.status();
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(message));
}

std::vector<uint8_t> Filled(size_t size, uint8_t first) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(first + i);
  return out;
}

// One of everything that the writer can write.
std::string SampleFile() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddBool("flag", true);
  writer.AddInt32("i32", -7);
  writer.AddUint32("u32", 4000000000u);
  writer.AddInt64("i64", -5000000000);
  writer.AddUint64("u64", 18446744073709551615u);
  writer.AddFloat("f32", 0.5f);
  writer.AddStrings("strings", std::vector<std::string>{"a", "", "\xE4\xBD\xA0"});
  writer.AddInts("ints", std::vector<int32_t>{-1, 0, 2147483647});
  writer.AddFloats("floats", std::vector<float>{1.5f, -2.0f});
  writer.AddBools("bools", {true, false, true});
  writer.AddTensor("matrix", DType::kQ4_0, {64, 2}, Filled(2 * 2 * 18, 1));
  writer.AddTensor("vector", DType::kF32, {3}, Filled(12, 100));
  absl::StatusOr<std::string> bytes = writer.Serialize();
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *bytes;
}

TEST(GgufTest, ReadsWhatTheWriterWrites) {
  std::string bytes = SampleFile();
  absl::StatusOr<std::unique_ptr<GgufFile>> parsed = Parse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const GgufFile& file = **parsed;
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetBool("flag"), true);
  EXPECT_EQ(*file.GetInt("i32"), -7);
  EXPECT_EQ(*file.GetInt("u32"), 4000000000);
  EXPECT_EQ(*file.GetInt("i64"), -5000000000);
  EXPECT_EQ(file.GetInt("u64").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*file.GetFloat("f32"), 0.5);
  EXPECT_EQ(*file.GetFloat("i32"), -7.0);
  EXPECT_THAT(*file.GetStrings("strings"), ElementsAre("a", "", "\xE4\xBD\xA0"));
  EXPECT_THAT(*file.GetInts("ints"), ElementsAre(-1, 0, 2147483647));
  EXPECT_THAT(*file.GetFloats("floats"), ElementsAre(1.5f, -2.0f));

  const GgufTensor* matrix = file.FindTensor("matrix");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->type, DType::kQ4_0);
  EXPECT_EQ(matrix->cols(), 64);
  EXPECT_EQ(matrix->rows(), 2);
  EXPECT_EQ(matrix->num_elements(), 128);
  EXPECT_TRUE(std::ranges::equal(matrix->data, Filled(72, 1)));
  absl::StatusOr<const GgufTensor*> vector = file.Tensor("vector");
  ASSERT_TRUE(vector.ok());
  EXPECT_TRUE(std::ranges::equal((*vector)->data, Filled(12, 100)));
  EXPECT_EQ(file.tensors().size(), 2u);
}

TEST(GgufTest, TypedAccessNamesTheKey) {
  std::string bytes = SampleFile();
  std::unique_ptr<GgufFile> file = *Parse(bytes);
  EXPECT_EQ(file->GetInt("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->GetFloat("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->Tensor("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->FindTensor("absent"), nullptr);
  for (const absl::Status& status :
       {file->GetInt("flag").status(), file->GetInt("f32").status(),
        file->GetFloat("flag").status(), file->GetBool("i32").status(),
        file->GetString("ints").status(), file->GetStrings("ints").status(),
        file->GetInts("strings").status(), file->GetFloats("ints").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("metadata key '"));
  }
}

TEST(GgufTest, VersionTwoAndVocabularyWithoutPadding) {
  Bytes bytes;
  bytes.Header(0, 1, 2).Text("k").U32(8).Text("v");
  EXPECT_EQ(*(*Parse(bytes.str()))->GetString("k"), "v");
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const std::string whole = SampleFile();
  // The last tensor ends 20 bytes before the end of the file, which is padded.
  for (size_t size = 0; size + 20 < whole.size(); ++size) {
    // A block of exactly this size, so that a sanitizer sees a read past it.
    std::vector<uint8_t> cut(whole.begin(), whole.begin() + size);
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(cut);
    ASSERT_FALSE(file.ok()) << size << " of " << whole.size() << " bytes";
  }
  ASSERT_TRUE(Parse(whole.substr(0, whole.size() - 20)).ok());
}

// Whatever a damaged file parses to, its views stay inside the bytes.
void ExpectInside(const GgufFile& file, std::span<const uint8_t> bytes) {
  auto inside = [&](const void* data, size_t size) {
    const uint8_t* begin = static_cast<const uint8_t*>(data);
    return size == 0 || (begin >= bytes.data() && begin + size <= bytes.data() + bytes.size());
  };
  for (const GgufTensor& tensor : file.tensors()) {
    EXPECT_TRUE(inside(tensor.data.data(), tensor.data.size())) << tensor.name;
    EXPECT_GT(tensor.num_elements(), 0);
  }
  for (const auto& [key, value] : file.metadata()) {
    if (const auto* text = std::get_if<std::string_view>(&value)) {
      EXPECT_TRUE(inside(text->data(), text->size())) << key;
    } else if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value)) {
      for (std::string_view t : *texts) EXPECT_TRUE(inside(t.data(), t.size())) << key;
    }
  }
}

TEST(GgufTest, EveryBitFlipIsRefusedOrHarmless) {
  const std::string whole = SampleFile();
  int refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<uint8_t> bytes(whole.begin(), whole.end());
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes);
    if (file.ok()) {
      ExpectInside(**file, bytes);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(GgufTest, RandomOverwritesAreRefusedOrHarmless) {
  const std::string whole = SampleFile();
  std::mt19937 random(20240501);
  const uint64_t nasty[] = {0,
                            1,
                            0x7FFFFFFF,
                            0x80000000,
                            0xFFFFFFFF,
                            0x7FFFFFFFFFFFFFFF,
                            0x8000000000000000,
                            0xFFFFFFFFFFFFFFF8,
                            0xFFFFFFFFFFFFFFFF};
  for (int i = 0; i < 30000; ++i) {
    std::vector<uint8_t> bytes(whole.begin(), whole.end());
    for (int n = random() % 3; n >= 0; --n) {
      uint64_t value = nasty[random() % std::size(nasty)];
      size_t width = random() % 2 == 0 ? 4 : 8;
      std::memcpy(bytes.data() + random() % (bytes.size() - width), &value, width);
    }
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes);
    if (file.ok()) ExpectInside(**file, bytes);
  }
}

TEST(GgufTest, RefusesBadHeaders) {
  using enum absl::StatusCode;
  ExpectRefused(Bytes(), kOutOfRange, "the magic");
  ExpectRefused(Bytes().Raw("PK\x03\x04").U32(3).U64(0).U64(0), kInvalidArgument,
                "not a GGUF file");
  ExpectRefused(Bytes().Header(0, 0, 1), kInvalidArgument, "1 is not supported");
  ExpectRefused(Bytes().Header(0, 0, 4), kInvalidArgument, "4 is not supported");
  ExpectRefused(Bytes().Header(0, 0, 0x03000000), kInvalidArgument, "big-endian");
  ExpectRefused(Bytes().Header(~uint64_t{0}, 0), kOutOfRange, "promises");
  ExpectRefused(Bytes().Header(0, ~uint64_t{0}), kOutOfRange, "promises");
  ExpectRefused(Bytes().Header(uint64_t{1} << 59, uint64_t{1} << 60), kOutOfRange, "promises");
}

TEST(GgufTest, RefusesBadMetadata) {
  using enum absl::StatusCode;
  auto one = [] { return Bytes().Header(0, 1); };
  auto key = [&] { return one().Text("k"); };
  const std::string room(256, '\0');
  ExpectRefused(one().U64(~uint64_t{0}).Raw(room), kOutOfRange, "metadata key 0");
  ExpectRefused(one().U64(1000).Raw(room), kOutOfRange, "metadata key 0");
  ExpectRefused(one().U64(0).Raw(room), kInvalidArgument, "name of 0 bytes");
  ExpectRefused(one().Text(std::string(65536, 'k')).Raw(room), kInvalidArgument, "65536 bytes");
  ExpectRefused(key().U32(13).Raw(room), kInvalidArgument, "unknown value type 13");
  ExpectRefused(key().U32(7).Raw("\x02").Raw(room), kInvalidArgument, "byte value 2");
  ExpectRefused(key().U32(8).U64(~uint64_t{0}).Raw(room), kOutOfRange, "'k'");
  ExpectRefused(key().U32(8).U64(~uint64_t{0} - 7).Raw(room), kOutOfRange, "'k'");
  // Arrays: nested, of unknown elements, longer than the file, with a size that wraps.
  ExpectRefused(key().U32(9).U32(9).U64(1).Raw(room), kInvalidArgument, "arrays of arrays");
  ExpectRefused(key().U32(9).U32(77).U64(1).Raw(room), kInvalidArgument, "element type 77");
  ExpectRefused(key().U32(9).U32(4).U64(65).Raw(room), kOutOfRange, "array of 65 elements");
  ExpectRefused(key().U32(9).U32(10).U64((uint64_t{1} << 61) + 1).Raw(room), kOutOfRange,
                "array of");
  ExpectRefused(key().U32(9).U32(8).U64(33).Raw(room), kOutOfRange, "array of 33 elements");
  ExpectRefused(key().U32(9).U32(8).U64(2).Text("a").U64(1000).Raw(room), kOutOfRange, "'k'");
  ExpectRefused(key().U32(9).U32(7).U64(1).Raw("\x07").Raw(room), kInvalidArgument, "byte value 7");
  ExpectRefused(key().U32(9).U32(10).U64(1).U64(~uint64_t{0}), kInvalidArgument, "element 0");
  ExpectRefused(Bytes().Header(0, 2).Text("k").U32(7).Raw("\x01").Text("k").U32(7).Raw("\x01"),
                kInvalidArgument, "'k': occurs twice");
}

// A megabyte of file must not be able to ask for a gigabyte of memory, however often it tries.
TEST(GgufTest, ArraysTogetherAreBounded) {
  Bytes bytes;
  bytes.Header(0, 2);
  const uint64_t count = (uint64_t{1} << 23) + 1;
  for (const char* key : {"a", "b"}) {
    bytes.Text(key).U32(9).U32(0).U64(count).Raw(std::string(count, '\1'));
  }
  ExpectRefused(bytes, absl::StatusCode::kOutOfRange, "all arrays together");
}

TEST(GgufTest, RefusesBadTensors) {
  using enum absl::StatusCode;
  const uint32_t f32 = 0, q4_0 = 2;
  const uint64_t big = uint64_t{1} << 62;
  auto one = [&](std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset,
                 size_t data_bytes = 64) {
    return Bytes()
        .Header(1, 0)
        .Info(name, std::move(dims), type, offset)
        .PadTo(32)
        .Raw(std::string(data_bytes, 'x'));
  };
  EXPECT_TRUE(Parse(one("t", {16}, f32, 0).str()).ok());
  ExpectRefused(one("", {16}, f32, 0), kInvalidArgument, "name of 0 bytes");
  ExpectRefused(one(std::string(65, 't'), {16}, f32, 0), kInvalidArgument, "name of 65 bytes");
  ExpectRefused(one("t", {}, f32, 0), kInvalidArgument, "0 dimensions");
  ExpectRefused(one("t", {1, 1, 1, 1, 1}, f32, 0), kInvalidArgument, "5 dimensions");
  ExpectRefused(one("t", {16, 0}, f32, 0), kInvalidArgument, "dimension 1 is 0");
  ExpectRefused(one("t", {~uint64_t{0}}, f32, 0), kInvalidArgument, "dimension 0");
  ExpectRefused(one("t", {big, 4}, f32, 0), kInvalidArgument, "overflows");
  // Four dimensions whose product wraps to a small number.
  ExpectRefused(one("t", {1u << 16, 1u << 16, 1u << 16, 1u << 16}, f32, 0), kInvalidArgument,
                "overflows");
  // The element count fits, the bytes do not.
  ExpectRefused(one("t", {big}, f32, 0), kInvalidArgument, "overflows");
  ExpectRefused(one("t", {33}, q4_0, 0), kInvalidArgument, "do not divide");
  ExpectRefused(one("t", {32}, 99, 0), kUnimplemented, "element type 99");
  ExpectRefused(one("t", {16}, f32, 8), kInvalidArgument, "multiple of the alignment");
  // Past the end, by one element, by offset, and by an offset that wraps when the size is added.
  ExpectRefused(one("t", {17}, f32, 0), kOutOfRange,
                "68 bytes at offset 0 of a data section of 64");
  ExpectRefused(one("t", {16}, f32, 32), kOutOfRange, "64 bytes at offset 32");
  ExpectRefused(one("t", {16}, f32, ~uint64_t{31}), kOutOfRange, "data section of 64");
  ExpectRefused(one("t", {16}, f32, 1 << 20), kOutOfRange, "data section of 64");

  auto two = [&](std::string_view second, uint64_t first_offset, uint64_t second_offset) {
    return Bytes()
        .Header(2, 0)
        .Info("a", {9}, f32, first_offset)
        .Info(second, {9}, f32, second_offset)
        .PadTo(32)
        .Raw(std::string(256, 'x'));
  };
  EXPECT_TRUE(Parse(two("b", 64, 0).str()).ok());  // order in the file is free
  ExpectRefused(two("a", 0, 64), kInvalidArgument, "'a': occurs twice");
  ExpectRefused(two("b", 0, 0), kInvalidArgument, "overlaps");
  ExpectRefused(two("b", 0, 32), kInvalidArgument, "'b': overlaps tensor 'a'");
  ExpectRefused(two("b", 32, 0), kInvalidArgument, "'a': overlaps tensor 'b'");
}

TEST(GgufTest, AlignmentIsChecked) {
  using enum absl::StatusCode;
  auto aligned = [](uint32_t alignment) {
    return Bytes()
        .Header(1, 1)
        .Text("general.alignment")
        .U32(4)
        .U32(alignment)
        .Info("t", {4}, 0, 0);
  };
  for (uint32_t bad : {0u, 1u, 4u, 12u, 31u, 33u, 0x80000000u, 0xFFFFFFFFu}) {
    ExpectRefused(aligned(bad).PadTo(64).Raw(std::string(64, 'x')), kInvalidArgument,
                  "power of two");
  }
  ExpectRefused(Bytes().Header(0, 1).Text("general.alignment").U32(8).Text("32"), kInvalidArgument,
                "general.alignment");
  // The padding itself may not reach past the end.
  ExpectRefused(aligned(1 << 20), kOutOfRange, "padding");
  Bytes good = aligned(64).PadTo(64).Raw(std::string(16, 'x'));
  absl::StatusOr<std::unique_ptr<GgufFile>> file = Parse(good.str());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(reinterpret_cast<const char*>((*file)->tensors()[0].data.data()) - good.str().data(),
            static_cast<std::ptrdiff_t>(good.str().size() - 16));
}

TEST(GgufWriterTest, RemembersTheFirstMistake) {
  GgufWriter twice;
  twice.AddBool("k", true);
  twice.AddInt32("k", 1);
  EXPECT_THAT(std::string(twice.Serialize().status().message()), HasSubstr("'k' is added twice"));
  GgufWriter wrong_size;
  wrong_size.AddTensor("t", DType::kF32, {3}, Filled(11, 0));
  EXPECT_THAT(std::string(wrong_size.Serialize().status().message()), HasSubstr("11 bytes"));
  GgufWriter ragged;
  ragged.AddTensor("t", DType::kQ8_0, {33}, Filled(34, 0));
  EXPECT_FALSE(ragged.Serialize().ok());
  GgufWriter same_tensor;
  same_tensor.AddTensor("t", DType::kF32, {1}, Filled(4, 0));
  same_tensor.AddTensor("t", DType::kF32, {1}, Filled(4, 0));
  EXPECT_THAT(std::string(same_tensor.Serialize().status().message()), HasSubstr("'t' is added"));
}

TEST(GgufTest, OpensFilesAndNamesThePath) {
  std::string path = testing::TempDir() + "/gguf_test.gguf";
  GgufWriter writer;
  writer.AddTensor("t", DType::kF32, {2}, Filled(8, 3));
  ASSERT_TRUE(writer.WriteFile(path).ok());
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(std::ranges::equal((*file)->tensors()[0].data, Filled(8, 3)));
  file->reset();
  std::filesystem::resize_file(path, 40);
  EXPECT_THAT(std::string(GgufFile::Open(path).status().message()), HasSubstr(path));
  std::filesystem::remove(path);
  EXPECT_EQ(GgufFile::Open(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(GgufTest, OpensARealModelQuickly) {
  std::string path = CairnHome() + "/models/qwen2.5-coder-1.5b/model.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->GetString("general.architecture"), "qwen2");
  EXPECT_EQ((*file)->tensors().size(), 339u);
  absl::StatusOr<const GgufTensor*> embedding = (*file)->Tensor("token_embd.weight");
  ASSERT_TRUE(embedding.ok());
  EXPECT_EQ((*embedding)->cols(), 1536);
  EXPECT_EQ((*embedding)->rows(), 151936);
  EXPECT_LT(seconds.count(), 2.0);  // a copy of the file would need longer and a gigabyte
  RecordProperty("open_ms", static_cast<int>(seconds.count() * 1000));
}

}  // namespace
}  // namespace cairn::engine
