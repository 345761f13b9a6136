// Recorded ids of other implementations: of Hugging Face's tokenizers library over several hundred
// texts per vocabulary, half of them random Unicode (tests/scripts/record_tokenizers.py and
// record_unigram.py make the records; gemma3's are llama.cpp's, by record_spm.py), and a sample of
// the harsher texts on which that library and llama.cpp agreed
// (tests/scripts/compare_tokenizers.py, which compares 20,000).
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/strings.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {
namespace {

struct Case {
  std::string name;   // of the record
  std::string model;  // directory under the models; empty: a vocabulary of the test data
};

class TokenizerReferenceTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::string path = StrCat(CairnHome(), "/models/", GetParam().model, "/model.gguf");
    if (GetParam().model.empty()) {
      const char* data = std::getenv("CAIRN_TEST_DATA");
      if (data == nullptr) GTEST_SKIP() << "CAIRN_TEST_DATA is not set";
      path = StrCat(data, "/tokenizers/llama.cpp/ggml-vocab-", GetParam().name, ".gguf");
    }
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(**file);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = *std::move(loaded);
  }

  std::ifstream Records(const std::string& name) {
    return std::ifstream(StrCat(CAIRN_SOURCE_DIR, "/tests/data/tokenizers/", name, ".jsonl"));
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerReferenceTest, GivesTheAgreedIds) {
  std::ifstream records = Records("random");
  int count = 0;
  for (std::string line; std::getline(records, line); ++count) {
    nlohmann::json record = nlohmann::json::parse(line);
    EXPECT_EQ(tokenizer_->Encode(record["text"].get<std::string>()),
              record["ids"][GetParam().name].get<std::vector<TokenId>>())
        << "line " << count + 1 << ": " << record["text"];
  }
  EXPECT_EQ(count, 150);
}

TEST_P(TokenizerReferenceTest, GivesTheRecordedIds) {
  std::ifstream records = Records(GetParam().name);
  if (GetParam().name == "phi-3") GTEST_SKIP() << "the library has no such vocabulary";
  int count = 0, num_second = 0;
  for (std::string line; std::getline(records, line); ++count) {
    nlohmann::json record = nlohmann::json::parse(line);
    EXPECT_EQ(tokenizer_->Encode(record["text"].get<std::string>()),
              record["ids"].get<std::vector<TokenId>>())
        << "line " << count + 1 << ": " << record["text"];
    if (!record.contains("engine_ids")) continue;  // a second reference, for part of the texts
    EXPECT_EQ(record["ids"], record["engine_ids"]) << record["text"];
    ++num_second;
  }
  EXPECT_GE(count, 300);
  EXPECT_GE(num_second, GetParam().name == "e5" ? 200 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Vocabularies, TokenizerReferenceTest,
    testing::Values(Case{"gpt-2", ""}, Case{"mpt", ""}, Case{"phi-3", ""}, Case{"bert-bge", ""},
                    Case{"qwen2", "qwen2.5-coder-0.5b"}, Case{"smollm", "smollm2-135m"},
                    Case{"gemma3", "gemma-3-270m"}, Case{"e5", "multilingual-e5-small"},
                    Case{"bert-bge", "all-minilm-l6-v2"}, Case{"bert-bge", "bge-small-en-v1.5"},
                    Case{"bert-bge", "ms-marco-minilm-l12-v2"}),
    [](const auto& info) {
      std::string name = info.param.name + "_" + info.param.model;
      for (char& c : name) c = std::isalnum(c) ? c : '_';
      return name;
    });

}  // namespace
}  // namespace cairn::engine
