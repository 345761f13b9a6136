// Frequencies against numbers of the published formulas, computed in double by another program.
#include "engine/model/rope_scaling.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

struct Point {
  int position, pair;
  double cosine, sine;  // times the magnitude
};

void ExpectPoints(const RopeConfig& config, const std::vector<Point>& points) {
  ASSERT_TRUE(CheckRopeScaling(config.scaling).ok()) << CheckRopeScaling(config.scaling);
  const std::vector<double> frequencies = RopeFrequencies(config);
  const double magnitude = RopeMagnitude(config.scaling);
  ASSERT_EQ(frequencies.size(), 64u);
  for (const Point& point : points) {
    const double angle = point.position * frequencies[point.pair];
    // Angles are up to 2^17, with a spacing of 2^-36.
    EXPECT_NEAR(magnitude * std::cos(angle), point.cosine, 1e-9) << "pair " << point.pair;
    EXPECT_NEAR(magnitude * std::sin(angle), point.sine, 1e-9) << "pair " << point.pair;
  }
}

TEST(RopeScalingTest, LinearFarOut) {
  ExpectPoints({.rotary_dim = 128, .scaling = {.type = RopeScalingType::kLinear, .factor = 4}},
               {
                   {8193, 0, 0.997660938772403, -0.068356793720647},
                   {8193, 20, -0.491167949274633, 0.871064891730433},
                   {8193, 63, 0.972157370528360, 0.234328928916994},
                   {131071, 0, 0.590899425867417, 0.806745231476181},
                   {131071, 20, -0.121602813129966, 0.992578841119877},
                   {131071, 63, -0.800679301058161, -0.599093195468797},
               });
}

// Pairs 0 and 20 are kept, 30 and 32 lie in the blend, 63 is stretched.
TEST(RopeScalingTest, Llama3FarOut) {
  ExpectPoints(
      {.rotary_dim = 128,
       .freq_base = 500000,
       .scaling = {.type = RopeScalingType::kLlama3, .factor = 8, .original_context = 8192}},
      {
          {8193, 0, 0.962793459375330, -0.270238329228267},
          {8193, 20, -0.830271623296473, -0.557358979068822},
          {8193, 30, 0.241925405956786, -0.970294851038922},
          {8193, 32, -0.400739989658781, -0.916191825268202},
          {8193, 63, 0.999996838970745, 0.002514368413384},
          {131071, 0, -0.817983499387949, -0.575241683754789},
          {131071, 20, -0.969630275577184, 0.244575404904325},
          {131071, 30, -0.735304432526813, -0.677736963361466},
          {131071, 32, 0.948310549763057, -0.317343821758181},
          {131071, 63, 0.999191095035397, 0.040213873252440},
      });
}

// Pairs 0 and 20 are kept, 27 and 35 lie in the blend, 63 is stretched.
TEST(RopeScalingTest, YarnFarOut) {
  ExpectPoints(
      {.rotary_dim = 128,
       .freq_base = 1e6,
       .scaling = {.type = RopeScalingType::kYarn, .factor = 4, .original_context = 32768}},
      {
          {8193, 0, 1.096264973740843, -0.307701316425027},
          {8193, 20, -0.870628295186079, 0.733814257426283},
          {8193, 27, 0.609883190287321, 0.961519363812121},
          {8193, 35, -0.491979917646324, 1.026855760763615},
          {8193, 63, 1.138625758057959, 0.002894109127996},
          {131071, 0, -0.931380090657012, -0.654987114001827},
          {131071, 20, 0.481311942033020, 1.031899126483354},
          {131071, 27, -1.073623979787154, -0.379220968310956},
          {131071, 35, 0.741667840479554, 0.863947803503835},
          {131071, 63, 1.137688227671720, 0.046287032718538},
      });
}

TEST(RopeScalingTest, FactorsDivideFrequencies) {
  const RopeConfig config = {.rotary_dim = 8};
  const std::vector<float> factors = {1, 2, 4, 8};
  const std::vector<double> plain = RopeFrequencies(config);
  const std::vector<double> divided = RopeFrequencies(config, factors);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(plain[i], std::pow(10000.0, -i / 4.0), 1e-15);
    EXPECT_EQ(divided[i], plain[i] / factors[i]);
  }
}

TEST(RopeScalingTest, YarnsAttentionFactor) {
  RopeScaling scaling = {
      .type = RopeScalingType::kYarn, .factor = 40, .original_context = 4096, .mscale = 0.707};
  EXPECT_NEAR(RopeMagnitude(scaling), 0.0707 * std::log(40.0) + 1, 1e-12);
  scaling.mscale_all_dim = 0.707;
  EXPECT_EQ(RopeMagnitude(scaling), 1);
  scaling.attention_factor = 1.5;
  EXPECT_EQ(RopeMagnitude(scaling), 1.5);
  scaling.type = RopeScalingType::kLinear;
  EXPECT_EQ(RopeMagnitude(scaling), 1);
}

TEST(RopeScalingTest, NamesOfTypes) {
  EXPECT_EQ(*ParseRopeScalingType("none"), RopeScalingType::kNone);
  EXPECT_EQ(*ParseRopeScalingType("default"), RopeScalingType::kNone);
  EXPECT_EQ(*ParseRopeScalingType("linear"), RopeScalingType::kLinear);
  EXPECT_EQ(*ParseRopeScalingType("llama3"), RopeScalingType::kLlama3);
  EXPECT_EQ(*ParseRopeScalingType("yarn"), RopeScalingType::kYarn);
  for (const char* name : {"dynamic", "longrope", "su", ""}) {
    EXPECT_EQ(ParseRopeScalingType(name).status().code(), absl::StatusCode::kUnimplemented) << name;
  }
}

TEST(RopeScalingTest, WhatIsOutOfRangeIsNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using Type = RopeScalingType;
  const std::vector<std::pair<RopeScaling, std::string>> cases = {
      {{.type = Type::kLinear, .factor = 0}, "factor"},
      {{.type = Type::kLinear, .factor = nan}, "factor"},
      {{.type = Type::kLlama3, .factor = 8}, "original_context"},
      {{.type = Type::kLlama3, .factor = 8, .original_context = 8, .low_freq_factor = 4},
       "high_freq_factor"},
      {{.type = Type::kYarn, .factor = 0.5, .original_context = 8}, "factor is 0.5"},
      {{.type = Type::kYarn, .factor = 2, .original_context = -1}, "original_context"},
      {{.type = Type::kYarn, .factor = 2, .original_context = 8, .beta_fast = 1}, "beta_fast"},
      {{.type = Type::kYarn, .factor = 2, .original_context = 8, .beta_slow = 0}, "beta_slow"},
      {{.type = Type::kYarn, .factor = 2, .original_context = 8, .attention_factor = nan},
       "attention_factor"},
      {{.type = Type::kYarn, .factor = 2, .original_context = 8, .mscale = -1}, "mscale"},
  };
  for (const auto& [scaling, mentions] : cases) {
    const absl::Status status = CheckRopeScaling(scaling);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mentions;
    EXPECT_NE(status.message().find(mentions), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace cairn::engine
