// Safetensors and ONNX: whole files become the right weights, damaged ones are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "common/strings.h"
#include "engine/convert/bert_sources.h"
#include "engine/convert/test_files.h"
#include "engine/convert/wordpiece_vocab.h"
#include "engine/gguf/gguf.h"
#include "kernels/half.h"

namespace cairn::engine {
namespace {

using testing::AsBytes;
using testing::BertShapes;
using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NamedShape;

BertTraits Traits(std::string pooling) {
  return {"tiny", "Apache-2.0", std::move(pooling), testing::kPositions, 2, 1e-12f, "", ""};
}

const BertTensor* FindIn(const std::vector<BertTensor>& tensors, std::string_view name) {
  for (const BertTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(SafetensorsTest, WholeFileBecomesABert) {
  const std::string bytes = testing::MakeSafetensors();
  const auto parsed = ParseSafetensors(AsBytes(bytes));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  auto tensors = BertFromSafetensors(*parsed);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const BertTensor* up = FindIn(*tensors, "blk.0.ffn_up.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->rows, testing::kFeedForward);
  float value;
  std::memcpy(&value, up->data.data() + 4 * 77, 4);
  EXPECT_EQ(value, 77.f / 8);
  GgufWriter writer;
  EXPECT_TRUE(AddBert(Traits("mean"), *tensors, &writer).ok());
  // A cross-encoder needs the classifier that is not there.
  GgufWriter other;
  EXPECT_THAT(std::string(AddBert(Traits("rank"), *tensors, &other).message()),
              HasSubstr("cls.weight"));
}

TEST(SafetensorsTest, DamagedFilesAreRefused) {
  // The header is where damage matters; a flipped bit of a weight is another weight.
  std::string bytes = testing::MakeSafetensors();
  const auto parse = [](std::span<const uint8_t> damaged) {
    return ParseSafetensors(damaged).ok();
  };
  uint64_t header_size;
  std::memcpy(&header_size, bytes.data(), 8);
  EXPECT_FALSE(parse(AsBytes(bytes.substr(0, bytes.size() - 1))));
  EXPECT_EQ(testing::FeedDamaged(bytes.substr(0, 8 + header_size), parse), 0);
}

TEST(SafetensorsTest, HostileHeaders) {
  const auto status = [](std::string_view header, std::string_view data) {
    return ParseSafetensors(
               AsBytes(Bytes().Put<uint64_t>(header.size()).Text(header).Text(data).str()))
        .status();
  };
  EXPECT_FALSE(status("[]", "").ok());
  EXPECT_FALSE(status(std::string(100000, '['), "").ok());
  EXPECT_FALSE(status("{\"a\":" + std::string(100000, '['), "").ok());
  EXPECT_FALSE(
      status(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "")
          .ok());
  EXPECT_FALSE(status(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd").ok());
  EXPECT_FALSE(status(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd").ok());
  EXPECT_FALSE(status(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "abcd").ok());
  EXPECT_EQ(status(R"({"a":{"dtype":"Q9","shape":[1],"data_offsets":[0,4]}})", "abcd").code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(status(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd").ok());
}

// Protobuf wire format, as much as ONNX needs.
std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
std::string Number(int field, uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string Field(int field, std::string_view bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

std::string Initializer(std::string_view name, int type, const std::vector<int64_t>& dims,
                        std::string_view raw) {
  std::string tensor;
  for (const int64_t dim : dims) tensor += Number(1, dim);
  tensor += Number(2, type) + Field(8, name) + Field(9, raw);
  return Field(5, tensor);
}

std::string FloatInitializer(std::string_view name, const std::vector<int64_t>& dims,
                             const std::vector<float>& values) {
  return Initializer(name, 1, dims,
                     {reinterpret_cast<const char*>(values.data()), values.size() * 4});
}

std::string Node(std::string_view op, std::string_view name,
                 const std::vector<std::string>& inputs) {
  std::string node;
  for (const std::string& input : inputs) node += Field(1, input);
  return Field(1, node + Field(2, StrCat(name, "_out")) + Field(3, name) + Field(4, op));
}

// What a matrix holds before quantisation, by its name in the graph: [out, in].
struct Original {
  std::vector<float> values;
  int64_t rows, cols;
};

// A cross-encoder as onnxruntime's dynamic quantisation leaves it: matrices int8 transposed with
// one scale a column, or one alone in the case of the pooler; tables uint8 with a zero point.
std::string MakeOnnxGraph(std::map<std::string, Original>* originals) {
  std::mt19937 random(7);
  std::string graph = Node("Softmax", "/softmax", {"y"});
  int number = 100;
  for (const NamedShape& shape : BertShapes(/*classifier=*/true)) {
    const std::string name = "bert." + shape.name;
    const std::string hf = shape.name.substr(0, 10) == "classifier" ? shape.name : name;
    if (shape.rows == 0) {
      std::vector<float> values(shape.cols);
      for (float& value : values) value = static_cast<float>(random() % 1000) / 1000;
      graph += FloatInitializer(hf, {shape.cols}, values);
      (*originals)[hf] = {values, 0, shape.cols};
      continue;
    }
    const bool table = shape.name.find("embeddings") != std::string::npos;
    const bool per_column = shape.name.find("encoder.") != std::string::npos;
    const bool by_name = table || !per_column;
    const std::string stem = by_name ? hf : StrCat("onnx::MatMul_", number++);
    std::string raw;
    std::vector<float> scales(per_column ? shape.rows : 1);
    for (float& scale : scales) scale = 0.001f + static_cast<float>(random() % 1000) / 10000;
    Original original{std::vector<float>(shape.rows * shape.cols), shape.rows, shape.cols};
    const int zero = table ? 113 : 0;
    for (int64_t i = 0; i < shape.rows * shape.cols; ++i) {
      const uint8_t byte = static_cast<uint8_t>(random());
      raw.push_back(static_cast<char>(byte));
      const int value = table ? byte - zero : static_cast<int8_t>(byte);
      // Tables are [rows, cols]; products are stored [cols, rows].
      const int64_t row = table ? i / shape.cols : i % shape.rows;
      const int64_t col = table ? i % shape.cols : i / shape.rows;
      original.values[row * shape.cols + col] =
          static_cast<float>(value) * scales[per_column ? row : 0];
    }
    const std::vector<int64_t> dims = table ? std::vector<int64_t>{shape.rows, shape.cols}
                                            : std::vector<int64_t>{shape.cols, shape.rows};
    graph += Initializer(stem + "_quantized", table ? 2 : 3, dims, raw);
    const std::vector<int64_t> scale_dims =
        per_column ? std::vector<int64_t>{shape.rows} : std::vector<int64_t>{};
    graph += FloatInitializer(stem + "_scale", scale_dims, scales);
    graph += Initializer(stem + "_zero_point", table ? 2 : 3, scale_dims,
                         std::string(scales.size(), static_cast<char>(zero)));
    std::string path = "/" + hf.substr(0, hf.size() - 7);  // without ".weight"
    for (size_t i = 0; i < path.size(); ++i) {
      if (path[i] == '.' && path.substr(i, 3) != ".0." && path.substr(i, 2) != ".0") path[i] = '/';
    }
    graph += table
                 ? Node("Gather", path + "/Gather", {stem + "_quantized", "ids"})
                 : Node("MatMulInteger", path + (by_name ? "/Gemm_MatMul_quant" : "/MatMul_quant"),
                        {"x", stem + "_quantized", "x_zero", stem + "_zero_point"});
    (*originals)[hf] = std::move(original);
  }
  return graph;
}

std::string Model(std::string_view graph) {
  return Number(1, 8) + Field(2, "test") + Field(7, graph);
}

std::vector<float> Floats(const BertTensor& tensor) {
  const int64_t count = std::max<int64_t>(tensor.rows, 1) * tensor.cols;
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    if (tensor.type == kernels::DType::kF32) {
      std::memcpy(&values[i], tensor.data.data() + 4 * i, 4);
    } else if (tensor.type == kernels::DType::kF16) {
      values[i] = kernels::LoadHalf(tensor.data.data() + 2 * i);
    } else {
      const uint8_t* block = tensor.data.data() + i / 32 * 34;
      values[i] = kernels::LoadHalf(block) * static_cast<int8_t>(block[2 + i % 32]);
    }
  }
  return values;
}

TEST(OnnxTest, QuantisedWeightsComeOutRight) {
  std::map<std::string, Original> originals;
  const std::string bytes = Model(MakeOnnxGraph(&originals));
  const auto graph = ParseOnnx(AsBytes(bytes));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto tensors = BertFromOnnx(*graph);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), originals.size());
  for (const auto& [name, original] : originals) {
    const BertTensor* tensor = FindIn(*tensors, GgufNameOfBert(name).value());
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->rows, original.rows) << name;
    EXPECT_EQ(tensor->cols, original.cols) << name;
    const std::vector<float> values = Floats(*tensor);
    ASSERT_EQ(values.size(), original.values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      // A scale or a value rounded to half precision: 11 significant bits.
      ASSERT_NEAR(values[i], original.values[i], std::ldexp(std::fabs(original.values[i]), -11))
          << name;
    }
  }
  GgufWriter writer;
  EXPECT_TRUE(AddBert(Traits("rank"), *tensors, &writer).ok());
}

TEST(OnnxTest, DamagedFilesAreRefused) {
  std::map<std::string, Original> originals;
  const std::string graph = MakeOnnxGraph(&originals);
  const auto parse = [](std::span<const uint8_t> damaged) {
    const auto parsed = ParseOnnx(damaged);
    if (!parsed.ok()) return false;
    const auto tensors = BertFromOnnx(*parsed);
    GgufWriter writer;
    return tensors.ok() && AddBert(Traits("rank"), *tensors, &writer).ok();
  };
  // The damage is inside the graph, in a model whose own length is right, so that it gets past the
  // first check.
  const auto parse_graph = [&](std::span<const uint8_t> damaged) {
    return parse(AsBytes(Model({reinterpret_cast<const char*>(damaged.data()), damaged.size()})));
  };
  EXPECT_TRUE(parse_graph(AsBytes(graph)));
  EXPECT_EQ(testing::FeedDamaged(graph, parse_graph), 0);
  const std::string model = Model(graph);
  for (size_t size = 0; size < model.size(); size += 97)
    EXPECT_FALSE(parse(AsBytes(model.substr(0, size))));
}

TEST(OnnxTest, HostileTensors) {
  const auto status = [](std::string_view graph) {
    return ParseOnnx(AsBytes(Field(7, graph))).status();
  };
  EXPECT_TRUE(status(FloatInitializer("a", {1}, {1})).ok());
  EXPECT_FALSE(status(FloatInitializer("a", {2}, {1})).ok());
  EXPECT_FALSE(status(Initializer("a", 1, {-1}, "")).ok());
  EXPECT_FALSE(status(Initializer("a", 1, {int64_t{1} << 40, int64_t{1} << 40}, "")).ok());
  EXPECT_FALSE(status(FloatInitializer("a", {1}, {1}) + FloatInitializer("a", {1}, {1})).ok());
  EXPECT_EQ(status(Field(5, Number(2, 1) + Field(8, "a") + Number(14, 1))).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(ParseOnnx({}).ok());
  EXPECT_FALSE(ParseOnnx(AsBytes(std::string(11, '\xff'))).ok());
}

TEST(WordPieceVocabularyTest, PiecesAreMarkedAsWordStartsOrNot) {
  GgufWriter writer;
  ASSERT_TRUE(AddWordPieceVocabulary(testing::kVocabTxt, testing::kWords, &writer).ok());
  const std::string bytes = writer.Serialize().value();
  const auto file = GgufFile::Parse(AsBytes(bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->GetStrings("tokenizer.ggml.tokens").value(),
              ElementsAre("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "\u2581hello",
                          "lo", "\u2581\u00e9t\u00e9"));
  EXPECT_EQ((*file)->GetInt("tokenizer.ggml.cls_token_id").value(), 2);
  GgufWriter other;
  EXPECT_FALSE(AddWordPieceVocabulary(testing::kVocabTxt, testing::kWords + 1, &other).ok());
  EXPECT_FALSE(AddWordPieceVocabulary("[PAD]\n[UNK]\n", 2, &other).ok());
}

}  // namespace
}  // namespace cairn::engine
