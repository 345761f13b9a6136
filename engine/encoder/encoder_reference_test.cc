// Real models against recorded references (tests/scripts/record_embeddings.py): a float32 BERT over
// the same weights, and the model's own runtime.
//
// Least cosine to the float32 reference: 0.999, our only rounding being activations to int8 in
// blocks of 32 (none for the float32 MiniLM). The runtimes round activations more coarsely:
// onnxruntime one scale a tensor, which alone moves bge-small by up to 0.013 from float32
// (record_embeddings.py prints it), so there the bound is that distance and not ours.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/strings.h"
#include "engine/encoder/encoder.h"

namespace cairn::engine {
namespace {

using Json = nlohmann::json;

#define SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing: cairn models fetch"

std::string ModelPath(const std::string& name) {
  return StrCat(CairnHome(), "/models/", name, "/model.gguf");
}

Json LoadReference(const std::string& name) {
  std::ifstream file(StrCat(CAIRN_REFERENCE_DIR, "/", name, ".json"));
  return Json::parse(file);
}

std::unique_ptr<Encoder> LoadModel(const std::string& name) {
  auto encoder = Encoder::Load(ModelPath(name), {.num_threads = 2});
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return encoder.ok() ? *std::move(encoder) : nullptr;
}

double Cosine(const float* a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

struct Model {
  std::string name;
  double least_float_cosine;
  double least_runtime_cosine;
};

class EmbeddingReferenceTest : public ::testing::TestWithParam<Model> {};

TEST_P(EmbeddingReferenceTest, VectorsAgree) {
  const Model& model = GetParam();
  SKIP_WITHOUT(ModelPath(model.name));
  const Json reference = LoadReference(model.name);
  ASSERT_GE(reference["cases"].size(), 20u);
  const auto encoder = LoadModel(model.name);
  ASSERT_NE(encoder, nullptr);
  double least_float = 1, least_runtime = 1;
  int with_runtime = 0;
  for (const Json& test : reference["cases"]) {
    const std::string text = test["text"];
    const TextKind kind = test["kind"] == "query" ? TextKind::kQuery : TextKind::kPassage;
    const auto result =
        encoder->Embed(RequestContext::Background(), std::vector<std::string_view>{text}, kind);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->token_counts[0], test["tokens"].get<int>()) << text;
    EXPECT_EQ(result->truncated[0], test["truncated"].get<bool>()) << text;
    double norm = 0;
    for (const float value : result->vectors) norm += double{value} * value;
    EXPECT_NEAR(norm, 1, 1e-5);
    const double cosine = Cosine(result->vectors.data(), test["f32"].get<std::vector<float>>());
    EXPECT_GE(cosine, model.least_float_cosine) << text;
    least_float = std::min(least_float, cosine);
    if (!test.contains("runtime")) continue;
    ++with_runtime;
    const double to_runtime =
        Cosine(result->vectors.data(), test["runtime"].get<std::vector<float>>());
    EXPECT_GE(to_runtime, model.least_runtime_cosine) << text;
    least_runtime = std::min(least_runtime, to_runtime);
  }
  std::printf("%s: least cosine %.6f to float32, %.6f to its runtime (%d texts)\n",
              model.name.c_str(), least_float, least_runtime, with_runtime);
}

INSTANTIATE_TEST_SUITE_P(Models, EmbeddingReferenceTest,
                         ::testing::Values(Model{"multilingual-e5-small", 0.999, 0.999},
                                           Model{"all-minilm-l6-v2", 0.99999, 0},
                                           Model{"bge-small-en-v1.5", 0.999, 0.98}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(RerankReferenceTest, ScoresAgree) {
  const std::string name = "ms-marco-minilm-l12-v2";
  SKIP_WITHOUT(ModelPath(name));
  const Json reference = LoadReference(name);
  const auto encoder = LoadModel(name);
  ASSERT_NE(encoder, nullptr);
  std::vector<double> ours, exact, runtime;
  for (const Json& test : reference["cases"]) {
    const std::string query = test["query"], passage = test["passage"];
    const auto result = encoder->Rerank(RequestContext::Background(), query,
                                        std::vector<std::string_view>{passage});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->num_tokens, test["tokens"].get<int>()) << passage;
    EXPECT_EQ(result->truncated[0], test["truncated"].get<bool>()) << passage;
    ours.push_back(result->scores[0]);
    exact.push_back(test["f32"]);
    runtime.push_back(test["runtime"]);
    // Logits reach from -11 to 9. Ours differ from float32 by activations of int8 in blocks of 32;
    // onnxruntime, with one scale a tensor, is up to 0.7 away from float32 on the same pairs.
    EXPECT_NEAR(ours.back(), exact.back(), 0.15) << passage;
    EXPECT_NEAR(ours.back(), runtime.back(), 0.8) << passage;
  }
  const auto correlation = [](const std::vector<double>& a, const std::vector<double>& b) {
    double n = static_cast<double>(a.size()), sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      sa += a[i], sb += b[i], saa += a[i] * a[i], sbb += b[i] * b[i], sab += a[i] * b[i];
    }
    return (n * sab - sa * sb) / std::sqrt((n * saa - sa * sa) * (n * sbb - sb * sb));
  };
  const auto largest = [](const std::vector<double>& a, const std::vector<double>& b) {
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
    return worst;
  };
  EXPECT_GE(correlation(ours, exact), 0.9999);
  EXPECT_GE(correlation(ours, runtime), 0.998);
  std::printf(
      "%s: to float32 correlation %.6f, largest difference %.4f; to onnxruntime %.6f, %.4f\n",
      name.c_str(), correlation(ours, exact), largest(ours, exact), correlation(ours, runtime),
      largest(ours, runtime));
}

}  // namespace
}  // namespace cairn::engine
