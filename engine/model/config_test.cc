#include "engine/model/config.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/model/weights.h"
#include "engine/testing/tiny_model.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

using testing::TinyModel;
using testing::TinyModelOptions;

absl::Status LoadBytes(const std::string& bytes) {
  CAIRN_ASSIGN_OR_RETURN(
      std::unique_ptr<GgufFile> file,
      GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
  WorkerPool pool(1);
  return ModelWeights::Load(std::move(file), pool).status();
}

absl::StatusOr<ModelConfig> ConfigOf(const std::string& bytes) {
  CAIRN_ASSIGN_OR_RETURN(
      std::unique_ptr<GgufFile> file,
      GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
  return ReadModelConfig(*file);
}

TEST(ModelConfigTest, ReadsEveryArchitectureWithItsDefaults) {
  absl::StatusOr<ModelConfig> llama = ConfigOf(TinyModel(TinyModelOptions{}).Serialize());
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->num_layers, 2);
  EXPECT_EQ(llama->vocab_size, TinyModel::kVocabSize);
  EXPECT_EQ(llama->heads.head_dim, 16);
  EXPECT_EQ(llama->ropes[0].rotary_dim, 16);
  EXPECT_EQ(llama->ropes[0].freq_base, 10000);
  EXPECT_EQ(llama->ropes[0].scaling.type, RopeScalingType::kNone);
  EXPECT_EQ(llama->rope_pairing, kernels::RopePairing::kInterleaved);

  absl::StatusOr<ModelConfig> qwen2 =
      ConfigOf(TinyModel({.architecture = "qwen2", .rope_linear_factor = 4}).Serialize());
  ASSERT_TRUE(qwen2.ok()) << qwen2.status();
  EXPECT_EQ(qwen2->rope_pairing, kernels::RopePairing::kHalves);
  EXPECT_EQ(qwen2->ropes[0].scaling.type, RopeScalingType::kLinear);
  EXPECT_EQ(qwen2->ropes[0].scaling.factor, 4);
  EXPECT_FALSE(qwen2->qk_norm);

  absl::StatusOr<ModelConfig> qwen3 =
      ConfigOf(TinyModel({.architecture = "qwen3", .head_dim = 24}).Serialize());
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_EQ(qwen3->rope_pairing, kernels::RopePairing::kHalves);
  EXPECT_EQ(qwen3->heads.head_dim, 24);
  EXPECT_EQ(qwen3->q_dim(), 96);
}

TEST(ModelConfigTest, Gemma3AlternatesLocalAndGlobalLayers) {
  absl::StatusOr<ModelConfig> config = ConfigOf(
      TinyModel({.architecture = "gemma3", .num_layers = 4, .window = 7, .rope_linear_factor = 8})
          .Serialize());
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->ropes.size(), 2u);
  EXPECT_EQ(config->ropes[0].freq_base, 300);
  EXPECT_EQ(config->ropes[0].scaling.factor, 8);
  EXPECT_EQ(config->ropes[1].freq_base, 10000);
  EXPECT_EQ(config->ropes[1].scaling.type, RopeScalingType::kNone);
  ASSERT_EQ(config->layers.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(config->layers[i].window, i % 2 == 0 ? 7 : 0);
    EXPECT_EQ(config->layers[i].rope, i % 2 == 0 ? 1 : 0);
  }
  EXPECT_EQ(config->embedding_scale, 8);
  EXPECT_EQ(config->attention_scale, 0.25f);
  EXPECT_TRUE(config->qk_norm && config->post_norms);
  EXPECT_EQ(config->activation, Activation::kGeluTanh);
}

TEST(ModelConfigTest, Gemma3WithoutAPatternHasEverySixthLayerGlobal) {
  absl::StatusOr<ModelConfig> config =
      ConfigOf(TinyModel({.architecture = "gemma3", .num_layers = 13})
                   .Serialize({"gemma3.attention.sliding_window_pattern"}));
  ASSERT_TRUE(config.ok()) << config.status();
  for (int i = 0; i < 13; ++i) {
    EXPECT_EQ(config->layers[i].window, i == 5 || i == 11 ? 0 : 20) << i;
  }
}

TEST(ModelConfigTest, Gemma3SoftCapsAreRefused) {
  const TinyModel model({.architecture = "gemma3"});
  for (const std::string key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    const absl::Status status =
        LoadBytes(model.Serialize({}, [&](GgufWriter& w) { w.AddFloat("gemma3." + key, 30); }));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_NE(status.message().find(key), std::string::npos) << status;
  }
}

TEST(ModelWeightsTest, AQwen3LayerMustHaveItsNormsOfQueriesAndKeys) {
  const TinyModel model({.architecture = "qwen3"});
  EXPECT_TRUE(LoadBytes(model.Serialize()).ok());
  for (const std::string name : {"blk.1.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}) {
    const absl::Status status = LoadBytes(model.Serialize({name}));
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  }
}

struct BadFile {
  std::string description;
  std::vector<std::string> skip;
  std::function<void(GgufWriter&)> edit;
  absl::StatusCode code;
  std::string mentions;
};

TEST(ModelConfigTest, WhatIsWrongOrUnknownIsNamed) {
  const auto uint = [](std::string key, uint32_t value) {
    return [=](GgufWriter& w) { w.AddUint32(key, value); };
  };
  const auto number = [](std::string key, float value) {
    return [=](GgufWriter& w) { w.AddFloat(key, value); };
  };
  const auto string = [](std::string key, std::string value) {
    return [=](GgufWriter& w) { w.AddString(key, value); };
  };
  const auto tensor = [](std::string name, std::vector<int64_t> dims) {
    return [=](GgufWriter& w) {
      int64_t count = 1;
      for (const int64_t dim : dims) count *= dim;
      w.AddTensor(name, kernels::DType::kF32, dims, std::vector<uint8_t>(count * 4, 0));
    };
  };
  using Code = absl::StatusCode;
  const std::vector<BadFile> cases = {
      {"no architecture",
       {"general.architecture"},
       nullptr,
       Code::kNotFound,
       "general.architecture"},
      {"unknown architecture",
       {"general.architecture"},
       string("general.architecture", "gemma9"),
       Code::kUnimplemented,
       "gemma9"},
      {"no layers key", {"llama.block_count"}, nullptr, Code::kNotFound, "block_count"},
      {"zero layers",
       {"llama.block_count"},
       uint("llama.block_count", 0),
       Code::kInvalidArgument,
       "block_count"},
      {"many layers",
       {"llama.block_count"},
       uint("llama.block_count", 4000000000u),
       Code::kInvalidArgument,
       "block_count"},
      {"more layers than tensors",
       {"llama.block_count"},
       uint("llama.block_count", 3),
       Code::kNotFound,
       "blk.2."},
      {"fewer layers than tensors",
       {"llama.block_count"},
       uint("llama.block_count", 1),
       Code::kUnimplemented,
       "blk.1."},
      {"layers of another type",
       {"llama.block_count"},
       string("llama.block_count", "2"),
       Code::kInvalidArgument,
       "block_count"},
      {"huge embedding",
       {"llama.embedding_length"},
       uint("llama.embedding_length", 1u << 31),
       Code::kInvalidArgument,
       "embedding_length"},
      {"another embedding",
       {"llama.embedding_length"},
       uint("llama.embedding_length", 128),
       Code::kInvalidArgument,
       "token_embd.weight"},
      {"zero heads",
       {"llama.attention.head_count"},
       uint("llama.attention.head_count", 0),
       Code::kInvalidArgument,
       "head_count"},
      {"heads that do not divide",
       {"llama.attention.head_count"},
       uint("llama.attention.head_count", 5),
       Code::kInvalidArgument,
       "head_count"},
      {"kv heads that do not divide",
       {"llama.attention.head_count_kv"},
       uint("llama.attention.head_count_kv", 3),
       Code::kInvalidArgument,
       "head_count_kv"},
      {"more kv heads than heads",
       {"llama.attention.head_count_kv"},
       uint("llama.attention.head_count_kv", 8),
       Code::kInvalidArgument,
       "head_count_kv"},
      {"odd head dimension",
       {},
       uint("llama.attention.key_length", 12),
       Code::kUnimplemented,
       "head dimension 12"},
      {"other value dimension",
       {},
       uint("llama.attention.value_length", 8),
       Code::kUnimplemented,
       "value_length"},
      {"zero context",
       {"llama.context_length"},
       uint("llama.context_length", 0),
       Code::kInvalidArgument,
       "context_length"},
      {"epsilon zero",
       {"llama.attention.layer_norm_rms_epsilon"},
       number("llama.attention.layer_norm_rms_epsilon", 0),
       Code::kInvalidArgument,
       "epsilon"},
      {"epsilon NaN",
       {"llama.attention.layer_norm_rms_epsilon"},
       number("llama.attention.layer_norm_rms_epsilon", NAN),
       Code::kInvalidArgument,
       "epsilon"},
      {"rope base negative",
       {},
       number("llama.rope.freq_base", -1),
       Code::kInvalidArgument,
       "freq_base"},
      {"rope base infinite",
       {},
       number("llama.rope.freq_base", INFINITY),
       Code::kInvalidArgument,
       "freq_base"},
      {"odd rotary dimension",
       {},
       uint("llama.rope.dimension_count", 7),
       Code::kInvalidArgument,
       "dimension_count"},
      {"rotary dimension beyond the head",
       {},
       uint("llama.rope.dimension_count", 32),
       Code::kInvalidArgument,
       "dimension_count"},
      {"unknown scaling",
       {},
       string("llama.rope.scaling.type", "longrope"),
       Code::kUnimplemented,
       "longrope"},
      {"llama3 scaling as a key",
       {},
       string("llama.rope.scaling.type", "llama3"),
       Code::kUnimplemented,
       "llama3"},
      {"linear with an attention factor",
       {},
       [=](GgufWriter& w) {
         w.AddFloat("llama.rope.scale_linear", 2);
         w.AddFloat("llama.rope.scaling.attn_factor", 2);
       },
       Code::kUnimplemented,
       "attn_factor"},
      {"yarn without original context",
       {},
       [=](GgufWriter& w) {
         w.AddString("llama.rope.scaling.type", "yarn");
         w.AddFloat("llama.rope.scaling.factor", 4);
       },
       Code::kNotFound,
       "original_context_length"},
      {"yarn that shrinks",
       {},
       [=](GgufWriter& w) {
         w.AddString("llama.rope.scaling.type", "yarn");
         w.AddFloat("llama.rope.scaling.factor", 0.5f);
         w.AddUint32("llama.rope.scaling.original_context_length", 64);
       },
       Code::kInvalidArgument,
       "factor is 0.5"},
      {"yarn with crossed betas",
       {},
       [=](GgufWriter& w) {
         w.AddString("llama.rope.scaling.type", "yarn");
         w.AddFloat("llama.rope.scaling.factor", 4);
         w.AddUint32("llama.rope.scaling.original_context_length", 64);
         w.AddFloat("llama.rope.scaling.yarn_beta_slow", 64);
       },
       Code::kInvalidArgument,
       "beta_fast"},
      {"yarn of a base without logarithm",
       {},
       [=](GgufWriter& w) {
         w.AddString("llama.rope.scaling.type", "yarn");
         w.AddFloat("llama.rope.scaling.factor", 4);
         w.AddUint32("llama.rope.scaling.original_context_length", 64);
         w.AddFloat("llama.rope.freq_base", 1);
       },
       Code::kInvalidArgument,
       "freq_base"},
      {"part of yarn's extrapolation",
       {},
       number("llama.rope.scaling.yarn_ext_factor", 0.5f),
       Code::kUnimplemented,
       "yarn_ext_factor"},
      {"linear without factor",
       {},
       string("llama.rope.scaling.type", "linear"),
       Code::kNotFound,
       "rope.scaling.factor"},
      {"factor without type",
       {},
       number("llama.rope.scaling.factor", 2),
       Code::kInvalidArgument,
       "rope.scaling.type"},
      {"experts", {}, uint("llama.expert_count", 8), Code::kUnimplemented, "expert_count"},
      {"sliding window",
       {},
       uint("llama.attention.sliding_window", 4096),
       Code::kUnimplemented,
       "sliding_window"},
      {"logit scale", {}, number("llama.logit_scale", 0.5f), Code::kUnimplemented, "logit_scale"},
      {"another vocabulary size",
       {},
       uint("llama.vocab_size", 100),
       Code::kInvalidArgument,
       "vocab_size"},
      {"missing norm", {"output_norm.weight"}, nullptr, Code::kNotFound, "output_norm.weight"},
      {"missing matrix", {"blk.1.ffn_up.weight"}, nullptr, Code::kNotFound, "blk.1.ffn_up.weight"},
      {"transposed matrix",
       {"blk.0.ffn_up.weight"},
       tensor("blk.0.ffn_up.weight", {96, 64}),
       Code::kInvalidArgument,
       "blk.0.ffn_up.weight"},
      {"matrix with three dimensions",
       {"blk.0.ffn_up.weight"},
       tensor("blk.0.ffn_up.weight", {64, 96, 1}),
       Code::kInvalidArgument,
       "blk.0.ffn_up.weight"},
      {"short norm",
       {"blk.0.attn_norm.weight"},
       tensor("blk.0.attn_norm.weight", {32}),
       Code::kInvalidArgument,
       "blk.0.attn_norm.weight"},
      {"unknown tensor",
       {},
       tensor("blk.0.attn_q_norm.weight", {16}),
       Code::kUnimplemented,
       "blk.0.attn_q_norm.weight"},
      {"rope factors of another length",
       {},
       tensor("rope_freqs.weight", {4}),
       Code::kInvalidArgument,
       "rope_freqs.weight"},
      {"rope factors of zero",
       {},
       tensor("rope_freqs.weight", {8}),
       Code::kInvalidArgument,
       "rope_freqs.weight"},
  };
  const TinyModel model(TinyModelOptions{});
  ASSERT_TRUE(LoadBytes(model.Serialize()).ok());
  for (const BadFile& bad : cases) {
    const absl::Status status = LoadBytes(model.Serialize(bad.skip, bad.edit));
    EXPECT_EQ(status.code(), bad.code) << bad.description << ": " << status;
    EXPECT_NE(status.message().find(bad.mentions), std::string::npos)
        << bad.description << ": " << status;
  }
}

TEST(ModelConfigTest, ReadsEverySpellingOfRopeScaling) {
  const auto scaling = [](const std::function<void(GgufWriter&)>& edit) {
    absl::StatusOr<ModelConfig> config =
        ConfigOf(TinyModel(TinyModelOptions{}).Serialize({}, edit));
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? config->ropes[0].scaling : RopeScaling();
  };
  const RopeScaling older =
      scaling([](GgufWriter& w) { w.AddFloat("llama.rope.scale_linear", 2); });
  EXPECT_EQ(older.type, RopeScalingType::kLinear);
  EXPECT_EQ(older.factor, 2);

  const RopeScaling yarn = scaling([](GgufWriter& w) {
    w.AddString("llama.rope.scaling.type", "yarn");
    w.AddFloat("llama.rope.scaling.factor", 4);
    w.AddUint32("llama.rope.scaling.original_context_length", 4096);
    w.AddFloat("llama.rope.scaling.attn_factor", 0.5f);
    w.AddFloat("llama.rope.scaling.yarn_beta_fast", 16);
    w.AddFloat("llama.rope.scaling.yarn_beta_slow", 2);
  });
  EXPECT_EQ(yarn.type, RopeScalingType::kYarn);
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_context, 4096);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 2);
  EXPECT_NEAR(RopeMagnitude(yarn), 0.5 * (0.1 * std::log(4.0) + 1), 1e-12);
}

TEST(ModelConfigTest, KeysThatSayOffAreAccepted) {
  const TinyModel model(TinyModelOptions{});
  const absl::Status status = LoadBytes(model.Serialize({}, [](GgufWriter& w) {
    w.AddUint32("llama.expert_count", 0);
    w.AddString("llama.rope.scaling.type", "none");
    w.AddUint32("llama.vocab_size", TinyModel::kVocabSize);
  }));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ModelWeightsTest, AWeightThatIsNotFiniteIsRefused) {
  TinyModel model(TinyModelOptions{});
  model.tensors.at("blk.1.ffn_norm.weight").values[3] = NAN;
  const absl::Status status = LoadBytes(model.Serialize());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("blk.1.ffn_norm.weight"), std::string::npos);
}

}  // namespace
}  // namespace cairn::engine
