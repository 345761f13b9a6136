// What holds for every vocabulary there is: users cannot write control tokens, and no text is slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/file.h"
#include "common/strings.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {
namespace {

using ::testing::Contains;

// Parameter: a vocabulary of the test data ("gpt-2"), or "models/NAME".
class VocabularyTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string path = StrCat(CairnHome(), "/", GetParam(), "/model.gguf");
    if (!GetParam().starts_with("models/")) {
      const char* data = std::getenv("CAIRN_TEST_DATA");
      if (data == nullptr) GTEST_SKIP() << "CAIRN_TEST_DATA is not set";
      path = StrCat(data, "/tokenizers/llama.cpp/ggml-vocab-", GetParam(), ".gguf");
    }
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(**file);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = *std::move(loaded);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(VocabularyTest, ControlTokensInUsersTextAreText) {
  int num_control = 0;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (!tokenizer_->IsControl(id)) continue;
    ++num_control;
    const std::string text = tokenizer_->TokenBytes(id, /*render_special=*/true);
    EXPECT_THAT(tokenizer_->Encode(text, {.parse_special = true}), Contains(id)) << text;
    for (const std::string& users : {text, StrCat("a", text, "b"), StrCat(text, text)}) {
      for (TokenId part : tokenizer_->Encode(users)) {
        // Where there are no byte tokens, what has no token is the unknown one, which is control.
        const bool is_unknown = tokenizer_->TokenBytes(part, true) == "<unk>" ||
                                tokenizer_->TokenBytes(part, true) == "[UNK]";
        EXPECT_TRUE(!tokenizer_->IsControl(part) || (is_unknown && part != tokenizer_->bos()))
            << users << " gave " << tokenizer_->TokenBytes(part, true);
      }
    }
  }
  EXPECT_GT(num_control, 0);
}

// A megabyte each: linear work takes well under a second, quadratic work 10^12 steps, which the
// test's time limit does not allow.
TEST_P(VocabularyTest, NoTextIsSlow) {
  const std::string repeated[] = {"a",
                                  " ",
                                  "\n",
                                  "\r\n",
                                  "1",
                                  "'",
                                  "=",
                                  "\u0301",
                                  "\u0323\u0301",
                                  "e\u0301",
                                  "\u4F60",
                                  "\xFF",
                                  "ab",
                                  "\u2581",
                                  "</s",
                                  "\xF0\x9F\x91\xA9\u200D",
                                  " a",
                                  "<|im_"};
  for (const std::string& unit : repeated) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    std::vector<TokenId> ids = tokenizer_->Encode(text, {.parse_special = true});
    EXPECT_LE(ids.size(), text.size() + 3) << unit;  // SentencePiece: the space in front
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, VocabularyTest,
                         testing::Values("gpt-2", "mpt", "phi-3", "bert-bge",
                                         "models/qwen2.5-coder-0.5b", "models/smollm2-135m",
                                         "models/multilingual-e5-small", "models/all-minilm-l6-v2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace cairn::engine
