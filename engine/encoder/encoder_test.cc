// The encoder on a tiny random model: against a plain double-precision BERT, and its contract.
#include "engine/encoder/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "common/file.h"
#include "engine/encoder/tiny_model.h"

namespace cairn::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TinyModel;

constexpr int kMean = 1, kCls = 2, kRank = 4;

class EncoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/encoder_test." + std::to_string(getpid());
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string WriteModel(int pooling) {
    const std::string path = StrCat(dir_, "/", pooling, ".gguf");
    EXPECT_TRUE(model_.Writer(pooling).WriteFile(path).ok());
    return path;
  }
  std::unique_ptr<Encoder> LoadModel(int pooling,
                                     const EncoderOptions& options = {.num_threads = 2}) {
    auto encoder = Encoder::Load(WriteModel(pooling), options);
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    return *std::move(encoder);
  }

  std::string dir_;
  TinyModel model_{42};
};

int Word(char c) { return 5 + c - 'a'; }

std::vector<double> Unit(std::vector<double> x) {
  double norm = 0;
  for (const double value : x) norm += value * value;
  for (double& value : x) value /= std::sqrt(norm);
  return x;
}

TEST_F(EncoderTest, MeanAndFirstTokenPoolingMatchThePlainModel) {
  const std::vector<int> ids = {2, Word('c'), Word('a'), Word('t'), 3};
  const auto states = model_.States(ids, {0, 0, 0, 0, 0});
  for (const int pooling : {kMean, kCls}) {
    std::vector<double> expected = states[0];
    if (pooling == kMean) {
      for (size_t i = 1; i < ids.size(); ++i) {
        for (int h = 0; h < TinyModel::kHidden; ++h) expected[h] += states[i][h];
      }
    }
    expected = Unit(expected);
    const auto result = LoadModel(pooling)->Embed(
        RequestContext::Background(), std::vector<std::string_view>{"c a t"}, TextKind::kRaw);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->token_counts, ElementsAre(5));
    ASSERT_EQ(result->vectors.size(), expected.size());
    // F32 over a few hundred roundings of values near 1.
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(result->vectors[i], expected[i], 1e-5) << pooling;
  }
}

TEST_F(EncoderTest, CrossEncoderScoresMatchThePlainModel) {
  const std::vector<int> ids = {2, Word('a'), Word('b'), 3, Word('c'), Word('d'), 3};
  const auto states = model_.States(ids, {0, 0, 0, 0, 1, 1, 1});
  std::vector<double> pooled = model_.Apply("cls", states[0]);
  for (double& value : pooled) value = std::tanh(value);
  const double expected = model_.Apply("cls.output", pooled)[0];

  const auto encoder = LoadModel(kRank);
  EXPECT_TRUE(encoder->is_cross_encoder());
  EXPECT_EQ(encoder->dimension(), 0);
  const auto result = encoder->Rerank(RequestContext::Background(), "a b",
                                      std::vector<std::string_view>{"z", "c d"});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->scores.size(), 2u);
  EXPECT_NEAR(result->scores[1], expected, 1e-5);
  EXPECT_EQ(result->num_tokens, 6 + 7);
}

std::vector<std::string> RandomTexts(int count) {
  std::mt19937 random(3);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    std::string text;
    const int words = 1 + static_cast<int>(random() % 30);  // some beyond the window
    for (int w = 0; w < words; ++w)
      text += std::string(1, static_cast<char>('a' + random() % 26)) + " ";
    texts.push_back(text);
  }
  return texts;
}

TEST_F(EncoderTest, ResultsDoNotDependOnTheBatchOrTheThreads) {
  const std::vector<std::string> texts = RandomTexts(40);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto one_by_one = LoadModel(kMean, {.num_threads = 1, .batch_token_budget = 1});
  const auto together = LoadModel(kMean, {.num_threads = 3, .batch_token_budget = 100000});
  const auto expected = one_by_one->Embed(RequestContext::Background(), views, TextKind::kQuery);
  const auto batched = together->Embed(RequestContext::Background(), views, TextKind::kQuery);
  ASSERT_TRUE(expected.ok() && batched.ok());
  EXPECT_EQ(expected->vectors, batched->vectors);  // to the bit
  EXPECT_EQ(expected->truncated, batched->truncated);

  const auto rerank_one = LoadModel(kRank, {.num_threads = 1, .batch_token_budget = 1});
  const auto rerank_all = LoadModel(kRank, {.num_threads = 3, .batch_token_budget = 256});
  const auto scores = rerank_one->Rerank(RequestContext::Background(), "a query", views);
  const auto batched_scores = rerank_all->Rerank(RequestContext::Background(), "a query", views);
  ASSERT_TRUE(scores.ok() && batched_scores.ok());
  EXPECT_EQ(scores->scores, batched_scores->scores);
  EXPECT_EQ(scores->truncated, batched_scores->truncated);
}

TEST_F(EncoderTest, ConcurrentCallsGiveTheSameAsOneAfterAnother) {
  const std::vector<std::string> texts = RandomTexts(12);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto encoder = LoadModel(kMean, {.num_threads = 2, .batch_token_budget = 32});
  const auto expected = encoder->Embed(RequestContext::Background(), views, TextKind::kRaw);
  ASSERT_TRUE(expected.ok());
  std::vector<std::thread> threads;
  std::atomic<int> same{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const auto result = encoder->Embed(RequestContext::Background(), views, TextKind::kRaw);
        same += result.ok() && result->vectors == expected->vectors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 20);
}

TEST_F(EncoderTest, TextsAreCutAtTheWindowAndSaySo) {
  const auto encoder = LoadModel(kMean);
  std::string fits, longer;
  for (int i = 0; i < TinyModel::kPositions - 2; ++i) fits += "a ";
  longer = fits + "b c d";
  const auto result = encoder->Embed(RequestContext::Background(),
                                     std::vector<std::string_view>{fits, longer}, TextKind::kRaw);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->truncated, ElementsAre(false, true));
  EXPECT_THAT(result->token_counts, ElementsAre(TinyModel::kPositions, TinyModel::kPositions));
  // Cut down to what fits, with the last special token kept: the same vector.
  const std::vector<float> first(result->vectors.begin(),
                                 result->vectors.begin() + encoder->dimension());
  const std::vector<float> second(result->vectors.begin() + encoder->dimension(),
                                  result->vectors.end());
  EXPECT_EQ(first, second);
}

TEST_F(EncoderTest, RerankCutsThePassageNeverTheQuery) {
  const auto encoder = LoadModel(kRank);
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "a ";
  const auto result =
      encoder->Rerank(RequestContext::Background(), "b",
                      std::vector<std::string_view>{"c", long_text, long_text + "d"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->truncated, ElementsAre(false, true, true));
  EXPECT_EQ(result->scores[1], result->scores[2]);
  const auto refused =
      encoder->Rerank(RequestContext::Background(), long_text, std::vector<std::string_view>{"c"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused.status()), "query");
}

TEST_F(EncoderTest, PrefixesFollowTheKind) {
  const auto encoder = LoadModel(kMean);
  EXPECT_EQ(encoder->prefix(TextKind::kQuery), "q ");
  EXPECT_EQ(encoder->prefix(TextKind::kPassage), "");
  const auto prefixed = encoder->Embed(RequestContext::Background(),
                                       std::vector<std::string_view>{"a b"}, TextKind::kQuery);
  const auto spelled = encoder->Embed(RequestContext::Background(),
                                      std::vector<std::string_view>{"q a b"}, TextKind::kRaw);
  ASSERT_TRUE(prefixed.ok() && spelled.ok());
  EXPECT_EQ(prefixed->vectors, spelled->vectors);
}

TEST_F(EncoderTest, RefusesWhatHasNoAnswer) {
  const auto encoder = LoadModel(kMean);
  for (const std::string_view blank : {"", "   ", "\n\t", "\xE3\x80\x80"}) {
    const auto result = encoder->Embed(RequestContext::Background(),
                                       std::vector<std::string_view>{"a", blank}, TextKind::kQuery);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(result.status()), "texts[1]");
  }
  EXPECT_EQ(encoder->Rerank(RequestContext::Background(), "a", {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto none = encoder->Embed(RequestContext::Background(), {}, TextKind::kRaw);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->vectors.empty());

  const auto reranker = LoadModel(kRank);
  EXPECT_EQ(
      reranker
          ->Embed(RequestContext::Background(), std::vector<std::string_view>{"a"}, TextKind::kRaw)
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reranker->Rerank(RequestContext::Background(), " ", std::vector<std::string_view>{"a"})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EncoderTest, CancellationAndDeadlinesEndTheCall) {
  const auto encoder = LoadModel(kMean);
  const std::vector<std::string_view> texts = {"a"};
  CancelSource source;
  source.Cancel();
  EXPECT_EQ(encoder->Embed(RequestContext(source), texts, TextKind::kRaw).status().code(),
            absl::StatusCode::kCancelled);
  const RequestContext late =
      RequestContext::Background().WithDeadline(absl::Now() - absl::Seconds(1));
  EXPECT_EQ(encoder->Embed(late, texts, TextKind::kRaw).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(EncoderTest, FingerprintsTellModelsAndPoolingsApart) {
  const std::string mean = LoadModel(kMean)->fingerprint();
  EXPECT_EQ(mean, LoadModel(kMean)->fingerprint());
  EXPECT_NE(mean, LoadModel(kCls)->fingerprint());
  model_.tensors["token_embd.weight"][100] += 0.5f;
  EXPECT_NE(mean, LoadModel(kMean)->fingerprint());
}

TEST_F(EncoderTest, DamagedModelsAreRefused) {
  const std::string path = WriteModel(kRank);
  EXPECT_EQ(Encoder::Load(dir_ + "/none.gguf", {}).status().code(), absl::StatusCode::kNotFound);
  const std::string whole = ReadFile(path).value();
  for (const size_t size : {size_t{0}, size_t{3}, whole.size() / 2, whole.size() - 1}) {
    ASSERT_TRUE(WriteFileAtomic(path, whole.substr(0, size)).ok());
    EXPECT_FALSE(Encoder::Load(path, {}).ok()) << size;
  }
  // A model whose parts do not fit together names the part.
  const auto refused = [&](auto change) {
    TinyModel broken(42);
    change(&broken);
    EXPECT_TRUE(broken.Writer(kRank).WriteFile(path).ok());
    return std::string(Encoder::Load(path, {}).status().message());
  };
  EXPECT_THAT(refused([](TinyModel* m) { m->tensors.erase("blk.1.ffn_up.bias"); }),
              HasSubstr("blk.1.ffn_up.bias"));
  EXPECT_THAT(refused([](TinyModel* m) { m->tensors["cls.bias"].push_back(0); }),
              HasSubstr("cls.bias"));
  EXPECT_THAT(refused([](TinyModel* m) { m->words.push_back("more"); }), HasSubstr("rows"));
  EXPECT_THAT(refused([](TinyModel* m) { m->tensors.erase("token_types.weight"); }),
              HasSubstr("token_types"));
  EXPECT_FALSE(Encoder::Load(WriteModel(kMean), {.num_threads = -1}).ok());
  EXPECT_FALSE(Encoder::Load(WriteModel(kMean), {.batch_token_budget = 0}).ok());
}

}  // namespace
}  // namespace cairn::engine
