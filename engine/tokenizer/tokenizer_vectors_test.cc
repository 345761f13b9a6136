// The 46 public test strings of llama.cpp against the ids that it publishes for each vocabulary.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/strings.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {
namespace {

struct Case {
  std::string name;        // of the vectors
  std::string vocabulary;  // path of the GGUF file; empty: beside the vectors
};

class TokenizerVectorsTest : public testing::TestWithParam<Case> {};

// The strings of an .inp file: separated, and ended, by a marker line.
std::vector<std::string> SplitInputs(const std::string& text) {
  constexpr std::string_view kMarker = "\n__ggml_vocab_test__\n";
  std::vector<std::string> inputs;
  for (size_t begin = 0;;) {
    size_t end = text.find(kMarker, begin);
    if (end == std::string::npos) return inputs;
    inputs.push_back(text.substr(begin, end - begin));
    begin = end + kMarker.size();
  }
}

std::vector<std::vector<TokenId>> SplitOutputs(const std::string& text) {
  std::vector<std::vector<TokenId>> outputs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    outputs.emplace_back();
    for (TokenId id; numbers >> id;) outputs.back().push_back(id);
  }
  return outputs;
}

TEST_P(TokenizerVectorsTest, AllStringsGiveThePublishedIds) {
  const char* data = std::getenv("CAIRN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "CAIRN_TEST_DATA is not set";
  std::string base = StrCat(data, "/tokenizers/llama.cpp/ggml-vocab-", GetParam().name, ".gguf");
  std::string vocabulary = GetParam().vocabulary.empty() ? base : GetParam().vocabulary;
  if (!std::filesystem::exists(vocabulary)) GTEST_SKIP() << vocabulary << " is missing";
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(vocabulary);
  ASSERT_TRUE(file.ok()) << file.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(**file);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;

  absl::StatusOr<std::string> inp = ReadFile(base + ".inp"), out = ReadFile(base + ".out");
  ASSERT_TRUE(inp.ok() && out.ok());
  std::vector<std::string> inputs = SplitInputs(*inp);
  std::vector<std::vector<TokenId>> outputs = SplitOutputs(*out);
  ASSERT_EQ(inputs.size(), 46u);
  ASSERT_EQ(outputs.size(), 46u);
  const bool is_lossless = GetParam().name != "bert-bge";
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(tokenizer.Encode(inputs[i]), outputs[i]) << "string " << i << ": " << inputs[i];
    if (is_lossless) {
      EXPECT_EQ(tokenizer.Decode(outputs[i]), inputs[i]) << "string " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Vocabularies, TokenizerVectorsTest,
    testing::Values(Case{"gpt-2", ""}, Case{"mpt", ""}, Case{"phi-3", ""}, Case{"bert-bge", ""},
                    Case{"qwen2", CairnHome() + "/models/qwen2.5-coder-0.5b/model.gguf"}),
    [](const auto& info) {
      std::string name = info.param.name;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace cairn::engine
