#include "engine/runner/runner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "common/check.h"
#include "engine/testing/tiny_model.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

using testing::ReferenceLogits;
using testing::TinyModel;
using testing::TinyModelOptions;

constexpr int kMaxTokens = 64;
constexpr int kNumBlocks = 32;

// A model with its cache, and sequences that are computed in whatever pieces a test likes.
class Harness {
 public:
  explicit Harness(const TinyModel& model, int num_threads = 1)
      : bytes_(model.Serialize()), workers_(num_threads), pool_(kNumBlocks) {
    absl::StatusOr<std::unique_ptr<GgufFile>> file =
        GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()});
    CAIRN_CHECK(file.ok());
    absl::StatusOr<std::unique_ptr<ModelWeights>> weights =
        ModelWeights::Load(*std::move(file), workers_);
    CAIRN_CHECK(weights.ok());
    weights_ = *std::move(weights);
    cache_ = *KvCache::Create(weights_->config().num_layers, kNumBlocks, weights_->config().heads);
    runner_ = std::make_unique<Runner>(weights_.get(), cache_.get(), &workers_, kMaxTokens, 8);
  }

  struct Piece {
    const std::vector<TokenId>* tokens;
    int first;
    int count;
    const BlockTable* table;
  };
  StepPlan Plan(const std::vector<Piece>& pieces) const {
    StepPlan plan;
    for (const Piece& piece : pieces) {
      StepChunk chunk;
      chunk.first_position = piece.first;
      chunk.tokens = std::span(*piece.tokens).subspan(piece.first, piece.count);
      chunk.blocks = piece.table->blocks();
      chunk.num_logits = 1;
      plan.num_rows += piece.count;
      ++plan.num_logit_rows;
      plan.chunks.push_back(chunk);
    }
    return plan;
  }
  // The logits of each piece's last token.
  std::vector<std::vector<float>> Run(const std::vector<Piece>& pieces) {
    const StepPlan plan = Plan(pieces);
    CAIRN_CHECK(runner_->Run(plan, [] { return false; }));
    std::vector<std::vector<float>> logits;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::span<const float> row = runner_->Logits(static_cast<int>(i));
      logits.emplace_back(row.begin(), row.end());
    }
    return logits;
  }
  BlockTable Blocks(int num_tokens) { return *pool_.Allocate(BlocksForTokens(num_tokens)); }
  Runner& runner() { return *runner_; }

 private:
  const std::string bytes_;
  WorkerPool workers_;
  BlockPool pool_;
  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Runner> runner_;
};

std::vector<TokenId> RandomTokens(int n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % TinyModel::kVocabSize);
  return tokens;
}

// Logits are of order 10. F32 alone would stay within 1e-4, but a key or value that lies at the
// border of two halves may be rounded the other way, 2^-11 of it apart, and that travels through
// the layers above.
constexpr double kTolerance = 1e-2;

void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], kTolerance) << "logit " << i;
}

TEST(RunnerTest, LogitsFollowTheDefinitionForEveryVariant) {
  const std::vector<TinyModelOptions> variants = {
      {},
      {.architecture = "qwen2"},
      {.num_heads = 8, .num_kv_heads = 1, .tied_embeddings = false},
      {.num_heads = 2, .num_kv_heads = 2, .rope_linear_factor = 4},
      {.rope_factors = true},
      {.rope_yarn_factor = 4},
      {.architecture = "qwen3", .rope_yarn_factor = 8, .rope_factors = true},
      {.architecture = "qwen2", .num_layers = 3, .tied_embeddings = false},
      {.architecture = "qwen3"},
      {.architecture = "gemma3", .num_layers = 3},
      {.architecture = "gemma3", .head_dim = 24, .window = 1, .rope_linear_factor = 8},
      {.architecture = "qwen3", .head_dim = 24, .tied_embeddings = false},  // q_dim is not dim
  };
  for (size_t v = 0; v < variants.size(); ++v) {
    SCOPED_TRACE(v);
    const TinyModel model(variants[v]);
    const std::vector<TokenId> tokens = RandomTokens(40, 9);
    const std::vector<std::vector<double>> expected = ReferenceLogits(model, tokens);
    Harness harness(model);
    const BlockTable table = harness.Blocks(40);
    // A prompt at once, then token by token across block borders.
    ExpectNear(harness.Run({{&tokens, 0, 7, &table}})[0], expected[6]);
    for (int i = 7; i < 40; ++i) {
      ExpectNear(harness.Run({{&tokens, i, 1, &table}})[0], expected[i]);
    }
  }
}

TEST(RunnerTest, RopeVariantsDoDiffer) {
  // Guards the test above: its variants must not compute the same thing by accident.
  const std::vector<TokenId> tokens = RandomTokens(20, 9);
  const std::vector<double> plain = ReferenceLogits(TinyModel(TinyModelOptions{}), tokens)[19];
  const std::vector<double> scaled =
      ReferenceLogits(TinyModel({.rope_linear_factor = 4}), tokens)[19];
  const std::vector<double> factors =
      ReferenceLogits(TinyModel({.rope_factors = true}), tokens)[19];
  const std::vector<double> yarn = ReferenceLogits(TinyModel({.rope_yarn_factor = 4}), tokens)[19];
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double max = 0;
    for (size_t i = 0; i < a.size(); ++i) max = std::max(max, std::abs(a[i] - b[i]));
    return max;
  };
  EXPECT_GT(distance(plain, scaled), 100 * kTolerance);
  EXPECT_GT(distance(plain, factors), 100 * kTolerance);
  EXPECT_GT(distance(plain, yarn), 100 * kTolerance);
  EXPECT_GT(distance(scaled, yarn), 100 * kTolerance);
}

class RunnerArchitectureTest : public ::testing::TestWithParam<TinyModelOptions> {};

INSTANTIATE_TEST_SUITE_P(All, RunnerArchitectureTest,
                         ::testing::Values(TinyModelOptions{.architecture = "qwen2"},
                                           TinyModelOptions{.architecture = "qwen3"},
                                           TinyModelOptions{.architecture = "gemma3"}),
                         [](const auto& info) { return info.param.architecture; });

TEST_P(RunnerArchitectureTest, ChunksCompanyAndThreadsChangeNoBit) {
  const TinyModel model(GetParam());
  const std::vector<TokenId> a = RandomTokens(50, 1), b = RandomTokens(50, 2),
                             c = RandomTokens(50, 3);
  const std::vector<const std::vector<TokenId>*> sequences = {&a, &b, &c};
  std::vector<std::vector<float>> alone;
  {
    Harness harness(model);
    for (const auto* tokens : sequences) {
      const BlockTable table = harness.Blocks(50);
      alone.push_back(harness.Run({{tokens, 0, 50, &table}})[0]);
    }
  }
  std::mt19937 rng(4);
  for (int round = 0; round < 20; ++round) {
    Harness harness(model, 1 + round % 3);
    const std::vector<BlockTable> tables = [&] {
      std::vector<BlockTable> t;
      for (int i = 0; i < 3; ++i) t.push_back(harness.Blocks(50));
      return t;
    }();
    std::vector<int> done(3, 0);
    std::vector<std::vector<float>> last(3);
    while (done != std::vector<int>{50, 50, 50}) {
      std::vector<Harness::Piece> pieces;
      std::vector<int> who;
      for (int i = 0; i < 3; ++i) {
        const int count = std::min<int>(static_cast<int>(rng() % 20), 50 - done[i]);
        if (count == 0) continue;
        pieces.push_back({sequences[i], done[i], count, &tables[i]});
        who.push_back(i);
        done[i] += count;
      }
      if (pieces.empty()) continue;
      const std::vector<std::vector<float>> logits = harness.Run(pieces);
      for (size_t p = 0; p < who.size(); ++p) last[who[p]] = logits[p];
    }
    for (int i = 0; i < 3; ++i) ASSERT_EQ(last[i], alone[i]) << "round " << round;
  }
}

TEST(RunnerTest, AnAbandonedStepMayBeRunAgain) {
  const TinyModel model(TinyModelOptions{});
  const std::vector<TokenId> tokens = RandomTokens(30, 5);
  Harness harness(model);
  const BlockTable table = harness.Blocks(30);
  const StepPlan plan = harness.Plan({{&tokens, 0, 30, &table}});
  int asked = 0;
  EXPECT_FALSE(harness.runner().Run(plan, [&] { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
  ExpectNear(harness.Run({{&tokens, 0, 30, &table}})[0], ReferenceLogits(model, tokens)[29]);
}

}  // namespace
}  // namespace cairn::engine
