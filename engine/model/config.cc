#include "engine/model/config.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "common/strings.h"

namespace cairn::engine {
namespace {

// Far above any real model, far below what could overflow the size of a buffer.
constexpr int kMaxDim = 1 << 17;
constexpr int kMaxLayers = 1024;
constexpr int kMaxHeads = 1024;
constexpr int kMaxVocab = 1 << 22;
constexpr int kMaxContext = 1 << 24;

// Reads keys of one architecture, "llama.block_count" and so on.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(StrCat(architecture, ".")) {}

  bool Has(std::string_view key) const { return file_.Has(StrCat(prefix_, key)); }

  absl::StatusOr<int> Int(std::string_view key, int min, int max) const {
    CAIRN_ASSIGN_OR_RETURN(const int64_t value, file_.GetInt(StrCat(prefix_, key)));
    if (value < min || value > max) {
      return absl::InvalidArgumentError(
          StrCat(prefix_, key, " is ", value, ", not in [", min, ", ", max, "]"));
    }
    return static_cast<int>(value);
  }
  absl::StatusOr<int> IntOr(std::string_view key, int min, int max, int fallback) const {
    return Has(key) ? Int(key, min, max) : fallback;
  }
  absl::StatusOr<double> Float(std::string_view key) const {
    return file_.GetFloat(StrCat(prefix_, key));
  }
  // A positive, finite number.
  absl::StatusOr<float> Positive(std::string_view key) const {
    CAIRN_ASSIGN_OR_RETURN(const double value, Float(key));
    const float narrow = static_cast<float>(value);
    if (!(narrow > 0) || !std::isfinite(narrow)) {
      return absl::InvalidArgumentError(StrCat(prefix_, key, " is ", value, ", not positive"));
    }
    return narrow;
  }
  absl::StatusOr<float> PositiveOr(std::string_view key, float fallback) const {
    return Has(key) ? Positive(key) : fallback;
  }
  absl::StatusOr<std::string_view> String(std::string_view key) const {
    return file_.GetString(StrCat(prefix_, key));
  }
  absl::Status Refuse(std::string_view key, std::string_view what) const {
    return absl::UnimplementedError(StrCat(prefix_, key, ": ", what, " is not supported"));
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
};

// Features of relatives of these architectures. Converters also write some of the keys with the
// value 0, "off".
constexpr std::pair<std::string_view, std::string_view> kRefusedKeys[] = {
    {"expert_count", "a mixture of experts"},
    {"attention.scale", "an attention scale of its own"},
    {"attention.clamp_kqv", "clamping of keys, queries and values"},
    {"attn_logit_softcapping", "soft-capping of attention"},
    {"final_logit_softcapping", "soft-capping of logits"},
    {"logit_scale", "scaling of logits"},
    {"residual_scale", "scaling of residuals"},
    {"embedding_scale", "scaling of embeddings"},
};

absl::Status RefuseWhatWeDoNotDo(const Keys& keys) {
  for (const auto& [key, what] : kRefusedKeys) {
    if (!keys.Has(key)) continue;
    CAIRN_ASSIGN_OR_RETURN(const double value, keys.Float(key));
    if (value != 0) return keys.Refuse(key, what);
  }
  return absl::OkStatus();
}

absl::Status ReadHeads(const Keys& keys, ModelConfig* config) {
  kernels::HeadShape& heads = config->heads;
  CAIRN_ASSIGN_OR_RETURN(heads.num_heads, keys.Int("attention.head_count", 1, kMaxHeads));
  CAIRN_ASSIGN_OR_RETURN(heads.num_kv_heads,
                         keys.IntOr("attention.head_count_kv", 1, kMaxHeads, heads.num_heads));
  if (heads.num_heads % heads.num_kv_heads != 0) {
    return absl::InvalidArgumentError(StrCat("attention.head_count ", heads.num_heads,
                                             " is not a multiple of attention.head_count_kv ",
                                             heads.num_kv_heads));
  }
  if (keys.Has("attention.key_length")) {
    CAIRN_ASSIGN_OR_RETURN(heads.head_dim,
                           keys.Int("attention.key_length", 8, kernels::kMaxHeadDim));
  } else if (config->embedding_dim % heads.num_heads != 0) {
    return absl::InvalidArgumentError(StrCat("embedding_length ", config->embedding_dim,
                                             " is not a multiple of attention.head_count ",
                                             heads.num_heads));
  } else {
    heads.head_dim = config->embedding_dim / heads.num_heads;
  }
  if (heads.head_dim % 8 != 0 || heads.head_dim > kernels::kMaxHeadDim) {
    return absl::UnimplementedError(StrCat("head dimension ", heads.head_dim,
                                           " is not a multiple of 8 up to ", kernels::kMaxHeadDim));
  }
  CAIRN_ASSIGN_OR_RETURN(const int value_length,
                         keys.IntOr("attention.value_length", 1, kMaxDim, heads.head_dim));
  if (value_length != heads.head_dim) {
    return keys.Refuse("attention.value_length", "a value dimension unlike the key dimension");
  }
  return absl::OkStatus();
}

// Written by some converters, each with the value that changes nothing.
absl::Status RefuseRopeKeys(const Keys& keys) {
  constexpr std::pair<std::string_view, double> kNeutral[] = {
      {"rope.scaling.alpha", 0},
      {"rope.scaling.yarn_log_multiplier", 0},
      {"rope.scaling.yarn_ext_factor", 1},
      {"rope.scaling.yarn_attn_factor", 1},
  };
  for (const auto& [key, neutral] : kNeutral) {
    if (!keys.Has(key)) continue;
    CAIRN_ASSIGN_OR_RETURN(const double value, keys.Float(key));
    if (value != neutral) return keys.Refuse(key, StrCat(value));
  }
  return absl::OkStatus();
}

absl::Status ReadYarn(const Keys& keys, RopeScaling* scaling) {
  CAIRN_ASSIGN_OR_RETURN(scaling->original_context,
                         keys.Int("rope.scaling.original_context_length", 1, kMaxContext));
  CAIRN_ASSIGN_OR_RETURN(scaling->beta_fast, keys.PositiveOr("rope.scaling.yarn_beta_fast", 32));
  CAIRN_ASSIGN_OR_RETURN(scaling->beta_slow, keys.PositiveOr("rope.scaling.yarn_beta_slow", 1));
  // In GGUF this multiplies the factor of the paper; in other configs it takes its place.
  CAIRN_ASSIGN_OR_RETURN(const float multiplier, keys.PositiveOr("rope.scaling.attn_factor", 1));
  scaling->attention_factor = multiplier * RopeMagnitude(*scaling);
  return absl::OkStatus();
}

// `rope.scale_linear` is the older spelling of linear scaling; the newer one has a type and a
// factor. Llama3 scaling has no key: it is the tensor rope_freqs.
absl::StatusOr<RopeScaling> ReadRopeScaling(const Keys& keys) {
  CAIRN_RETURN_IF_ERROR(RefuseRopeKeys(keys));
  RopeScaling scaling;
  if (keys.Has("rope.scaling.type")) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view name, keys.String("rope.scaling.type"));
    absl::StatusOr<RopeScalingType> type = ParseRopeScalingType(name);
    if (!type.ok() || *type == RopeScalingType::kLlama3) {
      return keys.Refuse("rope.scaling.type", StrCat("\"", name, "\""));
    }
    scaling.type = *type;
  } else if (keys.Has("rope.scaling.factor")) {
    return absl::InvalidArgumentError("rope.scaling.factor is there without rope.scaling.type");
  } else if (keys.Has("rope.scale_linear")) {
    scaling.type = RopeScalingType::kLinear;
  }
  if (scaling.type == RopeScalingType::kNone) return scaling;
  const bool older = !keys.Has("rope.scaling.factor") && keys.Has("rope.scale_linear");
  CAIRN_ASSIGN_OR_RETURN(scaling.factor,
                         keys.Positive(older ? "rope.scale_linear" : "rope.scaling.factor"));
  if (scaling.type == RopeScalingType::kYarn) {
    CAIRN_RETURN_IF_ERROR(ReadYarn(keys, &scaling));
  } else if (keys.Has("rope.scaling.attn_factor")) {
    return keys.Refuse("rope.scaling.attn_factor", "an attention factor without yarn");
  }
  CAIRN_RETURN_IF_ERROR(CheckRopeScaling(scaling));
  return scaling;
}

absl::StatusOr<RopeConfig> ReadRope(const Keys& keys, const ModelConfig& config) {
  RopeConfig rope;
  CAIRN_ASSIGN_OR_RETURN(rope.rotary_dim, keys.IntOr("rope.dimension_count", 2,
                                                     config.heads.head_dim, config.heads.head_dim));
  if (rope.rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(StrCat("rope.dimension_count ", rope.rotary_dim, " is odd"));
  }
  CAIRN_ASSIGN_OR_RETURN(rope.freq_base, keys.PositiveOr("rope.freq_base", 10000.0f));
  CAIRN_ASSIGN_OR_RETURN(rope.scaling, ReadRopeScaling(keys));
  // Yarn divides by the base's logarithm.
  if (rope.scaling.type == RopeScalingType::kYarn && !(rope.freq_base > 1)) {
    return absl::InvalidArgumentError(
        StrCat("rope.freq_base is ", rope.freq_base, ", not above 1 as yarn needs"));
  }
  return rope;
}

// Gemma 3 (https://arxiv.org/abs/2503.19786): of every `sliding_window_pattern` layers the last is
// global, and the others are local: they have a window and rotary angles of a base of their own,
// not scaled.
absl::Status ReadGemma3(const Keys& keys, ModelConfig* config) {
  config->embedding_scale = std::sqrt(static_cast<float>(config->embedding_dim));
  // The 27B model, which no key names, divides by the square root of embedding_dim / num_heads.
  constexpr int kLayersOf27B = 62;
  if (config->num_layers == kLayersOf27B) {
    config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->embedding_dim) /
                                               static_cast<float>(config->heads.num_heads));
  }
  CAIRN_ASSIGN_OR_RETURN(const int window,
                         keys.IntOr("attention.sliding_window", 0, kMaxContext, 0));
  if (window == 0) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const int pattern,
                         keys.IntOr("attention.sliding_window_pattern", 1, kMaxLayers, 6));
  RopeConfig local = config->ropes[0];
  local.scaling = RopeScaling();
  CAIRN_ASSIGN_OR_RETURN(local.freq_base, keys.PositiveOr("rope.freq_base_swa", 10000.0f));
  config->ropes.push_back(local);
  for (int i = 0; i < config->num_layers; ++i) {
    if (i % pattern != pattern - 1) config->layers[i] = {.window = window, .rope = 1};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  ModelConfig config;
  CAIRN_ASSIGN_OR_RETURN(const std::string_view architecture,
                         file.GetString("general.architecture"));
  config.architecture = std::string(architecture);
  if (architecture == "llama") {
    config.rope_pairing = kernels::RopePairing::kInterleaved;
  } else if (architecture == "qwen2" || architecture == "qwen3") {
    config.rope_pairing = kernels::RopePairing::kHalves;
    config.qk_norm = architecture == "qwen3";
  } else if (architecture == "gemma3") {
    config.rope_pairing = kernels::RopePairing::kHalves;
    config.qk_norm = true;
    config.post_norms = true;
    config.activation = Activation::kGeluTanh;
  } else {
    return absl::UnimplementedError(
        StrCat("general.architecture \"", architecture,
               "\" is not a generator that we know (llama, qwen2, qwen3, gemma3)"));
  }
  const Keys keys(file, architecture);
  CAIRN_RETURN_IF_ERROR(RefuseWhatWeDoNotDo(keys));
  CAIRN_ASSIGN_OR_RETURN(config.num_layers, keys.Int("block_count", 1, kMaxLayers));
  CAIRN_ASSIGN_OR_RETURN(config.embedding_dim, keys.Int("embedding_length", 8, kMaxDim));
  CAIRN_ASSIGN_OR_RETURN(config.feed_forward_dim, keys.Int("feed_forward_length", 1, kMaxDim * 8));
  CAIRN_ASSIGN_OR_RETURN(config.context_length, keys.Int("context_length", 1, kMaxContext));
  CAIRN_ASSIGN_OR_RETURN(config.rms_epsilon, keys.Positive("attention.layer_norm_rms_epsilon"));
  CAIRN_RETURN_IF_ERROR(ReadHeads(keys, &config));
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.heads.head_dim));
  CAIRN_ASSIGN_OR_RETURN(const RopeConfig rope, ReadRope(keys, config));
  config.ropes.push_back(rope);
  config.layers.resize(config.num_layers);
  if (architecture == "gemma3") {
    CAIRN_RETURN_IF_ERROR(ReadGemma3(keys, &config));
  } else if (keys.Has("attention.sliding_window")) {
    CAIRN_ASSIGN_OR_RETURN(const int window, keys.Int("attention.sliding_window", 0, kMaxContext));
    if (window != 0) return keys.Refuse("attention.sliding_window", "sliding-window attention");
  }

  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* embedding, file.Tensor("token_embd.weight"));
  if (embedding->rows() < 1 || embedding->rows() > kMaxVocab) {
    return absl::InvalidArgumentError(
        StrCat("token_embd.weight has ", embedding->rows(), " rows, not 1 to ", kMaxVocab));
  }
  config.vocab_size = static_cast<int>(embedding->rows());
  CAIRN_ASSIGN_OR_RETURN(const int stated,
                         keys.IntOr("vocab_size", 1, kMaxVocab, config.vocab_size));
  if (stated != config.vocab_size) {
    return absl::InvalidArgumentError(StrCat(architecture, ".vocab_size is ", stated,
                                             " but token_embd.weight has ", config.vocab_size,
                                             " rows"));
  }
  return config;
}

}  // namespace cairn::engine
