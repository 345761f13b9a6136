// RopeScaling: how the rotary frequencies of a model are stretched for contexts beyond those it was
// first trained on. The same whether a GGUF file or a JSON config states it.
//
// Pair i of a head turns by position * f_i, where unscaled f_i = base^(-2i / rotary_dim) radians a
// token (Su et al., 2021). With s = factor, L = original_context and r_i = L * f_i / (2 pi), the
// turns of a pair over the original context:
//   linear  f_i / s
//   llama3  f_i where r_i > high_freq_factor, f_i / s where r_i < low_freq_factor, and a blend that
//           is linear in r_i between (Llama 3.1's reference code)
//   yarn    f_i for the pairs that make more than beta_fast turns, f_i / s for those that make less
//           than beta_slow, and a blend that is linear in i between; cosines and sines are then
//           multiplied by an attention factor (Peng et al., 2023, https://arxiv.org/abs/2309.00071,
//           with the ramp over whole pair numbers of its authors' code)
#ifndef CAIRN_ENGINE_MODEL_ROPE_SCALING_H_
#define CAIRN_ENGINE_MODEL_ROPE_SCALING_H_

#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cairn::engine {

enum class RopeScalingType { kNone, kLinear, kLlama3, kYarn };

struct RopeScaling {
  RopeScalingType type = RopeScalingType::kNone;
  double factor = 1;  // s
  // Llama3 and yarn.
  int original_context = 0;  // L, tokens
  // Llama3, in turns.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  // Yarn: turns, and the attention factor, where 0 stands for m(mscale) / m(mscale_all_dim) with
  // m(x) = 0.1 * x * ln(factor) + 1. The defaults are the paper's 0.1 * ln(factor) + 1.
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;
  double mscale = 1;
  double mscale_all_dim = 0;
};

struct RopeConfig {
  int rotary_dim = 0;  // even
  double freq_base = 10000;
  RopeScaling scaling;
};

// "none" and "default", "linear", "llama3", "yarn": the values of GGUF's `rope.scaling.type`, and
// of `rope_type` or, in older configs, `type`. Others are UNIMPLEMENTED.
absl::StatusOr<RopeScalingType> ParseRopeScalingType(std::string_view name);

// INVALID_ARGUMENT naming the first value that its type uses and that is out of range.
absl::Status CheckRopeScaling(const RopeScaling& scaling);

// [rotary_dim / 2], radians a token. `factors` are divisors of the frequencies, [rotary_dim / 2],
// as GGUF stores llama3 scaling (`rope_freqs`); or empty. REQUIRES: a scaling that passed the
// check.
std::vector<double> RopeFrequencies(const RopeConfig& config, std::span<const float> factors = {});

// What cosines and sines are multiplied by: 1 but for yarn.
double RopeMagnitude(const RopeScaling& scaling);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_MODEL_ROPE_SCALING_H_
