#include "engine/model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/check.h"
#include "common/strings.h"

namespace cairn::engine {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

absl::Status CheckPositive(std::string_view name, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("rope scaling: ", name, " is ", value, ", not positive"));
}

absl::Status CheckAbove(std::string_view name, double value, std::string_view low_name,
                        double low) {
  if (value > low) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("rope scaling: ", name, " is ", value, ", not above ", low_name, " ", low));
}

double Llama3(const RopeScaling& scaling, double frequency) {
  const double turns = scaling.original_context * frequency / kTurn;
  const double kept = std::clamp(
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0,
      1.0);
  return frequency * (kept + (1 - kept) / scaling.factor);
}

// The pair, as a real number, that makes `turns` turns over the original context.
double PairOfTurns(const RopeConfig& config, double turns) {
  return config.rotary_dim * std::log(config.scaling.original_context / (turns * kTurn)) /
         (2 * std::log(config.freq_base));
}

// How much of pair `pair` is left as it is, 0 to 1.
double YarnKept(const RopeConfig& config, int pair) {
  const double low = std::max(0.0, std::floor(PairOfTurns(config, config.scaling.beta_fast)));
  const double high =
      std::min(config.rotary_dim - 1.0, std::ceil(PairOfTurns(config, config.scaling.beta_slow)));
  return 1 - std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
}

}  // namespace

absl::StatusOr<RopeScalingType> ParseRopeScalingType(std::string_view name) {
  if (name == "none" || name == "default") return RopeScalingType::kNone;
  if (name == "linear") return RopeScalingType::kLinear;
  if (name == "llama3") return RopeScalingType::kLlama3;
  if (name == "yarn") return RopeScalingType::kYarn;
  return absl::UnimplementedError(StrCat("rope scaling \"", name, "\" is not supported"));
}

absl::Status CheckRopeScaling(const RopeScaling& scaling) {
  if (scaling.type == RopeScalingType::kNone) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(CheckPositive("factor", scaling.factor));
  if (scaling.type == RopeScalingType::kLinear) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(CheckPositive("original_context", scaling.original_context));
  if (scaling.type == RopeScalingType::kLlama3) {
    CAIRN_RETURN_IF_ERROR(CheckPositive("low_freq_factor", scaling.low_freq_factor));
    CAIRN_RETURN_IF_ERROR(CheckPositive("high_freq_factor", scaling.high_freq_factor));
    return CheckAbove("high_freq_factor", scaling.high_freq_factor, "low_freq_factor",
                      scaling.low_freq_factor);
  }
  // Below 1 the attention factor's logarithm would lose its meaning.
  if (scaling.factor < 1) {
    return absl::InvalidArgumentError(
        StrCat("rope scaling: factor is ", scaling.factor, ", below yarn's least, 1"));
  }
  CAIRN_RETURN_IF_ERROR(CheckPositive("beta_slow", scaling.beta_slow));
  CAIRN_RETURN_IF_ERROR(CheckPositive("beta_fast", scaling.beta_fast));
  CAIRN_RETURN_IF_ERROR(CheckAbove("beta_fast", scaling.beta_fast, "beta_slow", scaling.beta_slow));
  for (const double value : {scaling.attention_factor, scaling.mscale, scaling.mscale_all_dim}) {
    if (value >= 0 && std::isfinite(value)) continue;
    return absl::InvalidArgumentError(StrCat(
        "rope scaling: attention_factor ", scaling.attention_factor, ", mscale ", scaling.mscale,
        " and mscale_all_dim ", scaling.mscale_all_dim, " must not be negative"));
  }
  return absl::OkStatus();
}

std::vector<double> RopeFrequencies(const RopeConfig& config, std::span<const float> factors) {
  CAIRN_CHECK(config.rotary_dim > 0 && config.rotary_dim % 2 == 0);
  CAIRN_CHECK(factors.empty() || static_cast<int>(factors.size()) == config.rotary_dim / 2);
  const RopeScaling& scaling = config.scaling;
  std::vector<double> frequencies(config.rotary_dim / 2);
  for (int i = 0; i < config.rotary_dim / 2; ++i) {
    double& frequency = frequencies[i];
    frequency = std::pow(config.freq_base, -2.0 * i / config.rotary_dim);
    switch (scaling.type) {
      case RopeScalingType::kNone:
        break;
      case RopeScalingType::kLinear:
        frequency /= scaling.factor;
        break;
      case RopeScalingType::kLlama3:
        frequency = Llama3(scaling, frequency);
        break;
      case RopeScalingType::kYarn: {
        const double kept = YarnKept(config, i);
        frequency *= kept + (1 - kept) / scaling.factor;
        break;
      }
    }
    if (!factors.empty()) frequency /= factors[i];
  }
  return frequencies;
}

double RopeMagnitude(const RopeScaling& scaling) {
  if (scaling.type != RopeScalingType::kYarn) return 1;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  const auto m = [&](double x) { return 0.1 * x * std::log(scaling.factor) + 1; };
  return m(scaling.mscale) / m(scaling.mscale_all_dim);
}

}  // namespace cairn::engine
