// How far our next-token distributions lie from those of an F32 computation with the same weights,
// over English, Chinese and code: the mean and the 99th percentile of KL(F32 || ours) in nats, how
// often both have the same likeliest token, and how far apart in F32 the two likeliest tokens lie
// where they differ (the mean of log p(F32's) - log p(ours)).
//
// The F32 computation is our runner over the model with its weights dequantised to F32. It rounds
// keys and values to half precision and nothing else. That it computes the model is known from two
// other tests: runner_test holds it against plain loops, engine_reference_test against llama.cpp.
//
// The first token of a sequence is counted apart. Some models give it activations some thousand
// times larger than any other's, beside which the rest of their block of 256 rounds to nothing:
// with Qwen2.5-Coder-1.5B in Q4_K the distribution behind it is another one altogether (5 nats,
// with llama.cpp as well), and those behind the next tokens are not.
//
// English is CAIRN_TEST_DATA/scifact, Chinese CAIRN_TEST_DATA/cmrc2018, code our own sources.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/file.h"
#include "common/strings.h"
#include "common/worker_pool.h"
#include "engine/gguf/gguf.h"
#include "engine/kv_cache/kv_cache.h"
#include "engine/model/weights.h"
#include "engine/runner/runner.h"
#include "engine/testing/float_copy.h"
#include "engine/tokenizer/tokenizer.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

constexpr int kChunkTokens = 64;
#ifdef CAIRN_WHOLE_MEASUREMENT
constexpr int kSequenceTokens = 512;
constexpr int kSequences = 7;  // a language; 10,752 tokens in all
#else
constexpr int kSequenceTokens = 128;
constexpr int kSequences = 2;
#endif

// A model and the distributions that it gives.
class Model {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& path, WorkerPool& workers) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
    std::unique_ptr<Model> model(new Model);
    CAIRN_ASSIGN_OR_RETURN(model->weights_, ModelWeights::Load(std::move(file), workers));
    const ModelConfig& config = model->weights_->config();
    CAIRN_ASSIGN_OR_RETURN(
        model->cache_, KvCache::Create(config.num_layers, model->pool_.num_blocks(), config.heads));
    model->runner_ = std::make_unique<Runner>(model->weights_.get(), model->cache_.get(), &workers,
                                              kChunkTokens, kChunkTokens);
    CAIRN_ASSIGN_OR_RETURN(model->blocks_, model->pool_.Allocate(model->pool_.num_blocks()));
    return model;
  }

  // Computes tokens [first, first + count) of a sequence whose earlier tokens were computed last.
  // REQUIRES: count <= kChunkTokens.
  void Compute(std::span<const TokenId> sequence, int first, int count) {
    StepPlan plan;
    plan.num_rows = plan.num_logit_rows = count;
    for (int i = first; i < first + count; ++i) {  // a chunk a token, as each one's logits count
      StepChunk chunk;
      chunk.first_position = i;
      chunk.tokens = sequence.subspan(i, 1);
      chunk.blocks = blocks_.blocks();
      chunk.num_logits = 1;
      plan.chunks.push_back(chunk);
    }
    CAIRN_CHECK(runner_->Run(plan, [] { return false; }));
  }
  std::span<const float> Logits(int i) const { return runner_->Logits(i); }

 private:
  Model() = default;

  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Runner> runner_;
  BlockPool pool_{kSequenceTokens / kBlockTokens};
  BlockTable blocks_;
};

struct TokenDivergence {
  double kl = 0;
  bool same_top = false;
  double margin = 0;  // of the reference's likeliest token over the other's, in the reference
};

// KL(reference || other) of the distributions that the logits stand for.
TokenDivergence Compare(std::span<const float> reference, std::span<const float> other) {
  const auto top = std::ranges::max_element(reference);
  const auto other_top = std::ranges::max_element(other);
  double sum = 0, other_sum = 0, weighted = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double logit = double{reference[i]} - *top, other_logit = double{other[i]} - *other_top;
    const double p = std::exp(logit);
    sum += p;
    other_sum += std::exp(other_logit);
    weighted += p * (logit - other_logit);
  }
  const auto other_top_in_reference = reference.begin() + (other_top - other.begin());
  return {weighted / sum - std::log(sum) + std::log(other_sum), top == other_top_in_reference,
          double{*top} - *other_top_in_reference};
}

TEST(CompareTest, IsTheDivergence) {
  const std::vector<float> a = {0, std::log(3.0f), -100}, b = {std::log(3.0f) + 5, 5, -100};
  EXPECT_EQ(Compare(a, a).kl, 0);
  EXPECT_TRUE(Compare(a, a).same_top);
  // 1/4 log(1/3) + 3/4 log 3
  EXPECT_NEAR(Compare(a, b).kl, 0.5 * std::log(3), 1e-6);
  EXPECT_FALSE(Compare(a, b).same_top);
  EXPECT_NEAR(Compare(a, b).margin, std::log(3), 1e-6);
}

struct Summary {
  double mean_kl = 0;
  double p99_kl = 0;
  double agreement = 0;  // share of tokens with the same likeliest next token
  double margin = 0;     // mean over the others, 0 when there are none
};

Summary Summarise(const std::vector<TokenDivergence>& tokens) {
  std::vector<double> kl;
  double sum = 0, agreed = 0, margins = 0;
  for (const TokenDivergence& token : tokens) {
    kl.push_back(token.kl);
    sum += token.kl;
    agreed += token.same_top ? 1 : 0;
    margins += token.margin;
  }
  std::ranges::sort(kl);
  const double n = static_cast<double>(tokens.size());
  return {sum / n, kl[kl.size() * 99 / 100], agreed / n, agreed < n ? margins / (n - agreed) : 0};
}

void Print(const std::string& model, const std::string& what, size_t num_tokens, const Summary& s) {
  std::printf("%-20s %-8s %6zu tokens  KL mean %.5f p99 %.5f  same top %.2f %%, else apart %.3f\n",
              model.c_str(), what.c_str(), num_tokens, s.mean_kl, s.p99_kl, 100 * s.agreement,
              s.margin);
  std::fflush(stdout);
}

std::string JsonLinesText(const std::string& path) {
  std::ifstream lines(path);
  std::string text;
  for (std::string line; text.size() < (1 << 20) && std::getline(lines, line);) {
    text += nlohmann::json::parse(line)["text"].get<std::string>() + "\n\n";
  }
  return text;
}

std::string SourceText() {
  std::string text;
  for (const char* name : {"common/worker_pool.cc", "engine/tokenizer/bpe.cc",
                           "kernels/dequantize.cc", "kernels/matmul_ref.cc"}) {
    text += *ReadFile(StrCat(CAIRN_SOURCE_DIR, "/", name));
  }
  return text;
}

struct Language {
  std::string name;
  std::string text;
};

// Wanted are 98 % of tokens. Rounding activations to 8 bits decides between tokens that are nearly
// as likely: 96.3 % were measured with SmolLM2, 98.2 % with the 0.5B and 97.4 % with the 1.5B,
// whose file llama.cpp computes with 97.7 % (llama-perplexity --kl-divergence, second halves of
// contexts of 512). The bars lie a little below what was measured; where it is less than 98 % that
// is a gap.
struct Bar {
  std::string model;
  double agreement;
};

void PrintTo(const Bar& bar, std::ostream* os) { *os << bar.model; }

class DivergenceTest : public ::testing::TestWithParam<Bar> {};

TEST_P(DivergenceTest, StaysNearF32) {
  const std::string& name = GetParam().model;
  const std::string path = StrCat(CairnHome(), "/models/", name, "/model.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  std::vector<Language> languages = {{"code", SourceText()}};
  if (const char* data = std::getenv("CAIRN_TEST_DATA")) {
    languages.push_back({"English", JsonLinesText(StrCat(data, "/scifact/corpus.jsonl"))});
    languages.push_back({"Chinese", JsonLinesText(StrCat(data, "/cmrc2018/dev/corpus.jsonl"))});
  }

  WorkerPool workers(2);
  const std::string copy = ::testing::TempDir() + "/cairn_divergence.gguf";
  const absl::Status written = testing::WriteFloatCopy(path, copy);
  ASSERT_TRUE(written.ok()) << written;
  absl::StatusOr<std::unique_ptr<Model>> reference = Model::Load(copy, workers);
  std::filesystem::remove(copy);  // the mapping keeps the bytes
  ASSERT_TRUE(reference.ok()) << reference.status();
  absl::StatusOr<std::unique_ptr<Model>> ours = Model::Load(path, workers);
  ASSERT_TRUE(ours.ok()) << ours.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(**GgufFile::Open(path));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();

  std::vector<TokenDivergence> all, first_tokens;
  for (const Language& language : languages) {
    const std::vector<TokenId> ids = (*tokenizer)->Encode(language.text);
    ASSERT_GE(ids.size(), size_t{kSequences * kSequenceTokens}) << language.name;
    std::vector<TokenDivergence> tokens;
    for (int s = 0; s < kSequences; ++s) {
      const std::span<const TokenId> sequence =
          std::span(ids).subspan(s * kSequenceTokens, kSequenceTokens);
      for (int first = 0; first < kSequenceTokens; first += kChunkTokens) {
        (*reference)->Compute(sequence, first, kChunkTokens);
        (*ours)->Compute(sequence, first, kChunkTokens);
        std::vector<TokenDivergence> chunk(kChunkTokens);
        workers.ParallelFor(kChunkTokens, [&](int64_t i) {
          const int row = static_cast<int>(i);
          chunk[i] = Compare((*reference)->Logits(row), (*ours)->Logits(row));
        });
        if (first == 0) first_tokens.push_back(chunk[0]);
        tokens.insert(tokens.end(), chunk.begin() + (first == 0 ? 1 : 0), chunk.end());
      }
    }
    Print(name, language.name, tokens.size(), Summarise(tokens));
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  Print(name, "first", first_tokens.size(), Summarise(first_tokens));
  const Summary summary = Summarise(all);
  Print(name, "all", all.size(), summary);
  EXPECT_LE(summary.mean_kl, 0.01);
  EXPECT_GE(summary.agreement, GetParam().agreement);
}

#ifdef CAIRN_WHOLE_MEASUREMENT
INSTANTIATE_TEST_SUITE_P(Models, DivergenceTest,
                         ::testing::Values(Bar{"smollm2-135m", 0.955},
                                           Bar{"qwen2.5-coder-0.5b", 0.98},
                                           Bar{"qwen2.5-coder-1.5b", 0.97}));
#else
INSTANTIATE_TEST_SUITE_P(Models, DivergenceTest, ::testing::Values(Bar{"smollm2-135m", 0.93}));
#endif

}  // namespace
}  // namespace cairn::engine
