#include "engine/testing/tiny_model.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "common/check.h"
#include "common/file.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "kernels/ops.h"

namespace cairn::engine::testing {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr float kRopeBase = 10000.0f;
constexpr int kYarnContext = 32;
constexpr float kGlobalRopeBase = 300.0f;  // gemma3
constexpr int kWindowPattern = 2;

// GPT-2's printable stand-in for a byte.
std::string ByteSymbol(int byte) {
  static const std::vector<char32_t> symbols = [] {
    std::vector<char32_t> table(256, 0);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      table[b] = printable ? static_cast<char32_t>(b) : next++;
    }
    return table;
  }();
  std::string text;
  AppendUtf8(symbols[byte], &text);
  return text;
}

std::vector<std::string> Tokens() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(ByteSymbol(b));
  tokens.insert(tokens.end(),
                {"th", "he", "in", "er", "<|end|>", "<|pad1|>", "<|pad2|>", "<|pad3|>"});
  return tokens;
}

std::vector<uint8_t> Bytes(const std::vector<float>& values) {
  const auto* data = reinterpret_cast<const uint8_t*>(values.data());
  return {data, data + values.size() * sizeof(float)};
}

using Row = std::vector<double>;

class Reference {
 public:
  explicit Reference(const TinyModel& model)
      : model_(model), o_(model.options), head_dim_(model.head_dim()) {}

  Row Embed(TokenId token) const {
    const std::vector<float>& table = At("token_embd.weight");
    const auto begin = table.begin() + static_cast<int64_t>(token) * o_.embedding_dim;
    Row x(begin, begin + o_.embedding_dim);
    if (gemma()) {
      for (double& value : x) value *= std::sqrt(static_cast<double>(o_.embedding_dim));
    }
    return x;
  }

  bool gemma() const { return o_.architecture == "gemma3"; }
  bool local(int layer) const { return gemma() && layer % kWindowPattern != kWindowPattern - 1; }

  Row Norm(const Row& x, const std::string& name) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + kEpsilon);
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * At(name)[i];
    return y;
  }

  // Every head of x by itself, where the model has such a norm.
  void NormHeads(Row& x, const std::string& name) const {
    if (!model_.tensors.contains(name)) return;
    for (auto head = x.begin(); head != x.end(); head += head_dim_) {
      const Row normed = Norm(Row(head, head + head_dim_), name);
      std::copy(normed.begin(), normed.end(), head);
    }
  }

  Row Linear(const Row& x, const std::string& name) const {
    const TinyModel::Tensor& w = model_.tensors.at(name + ".weight");
    Row y(w.dims[1], 0);
    for (int64_t r = 0; r < w.dims[1]; ++r) {
      for (int64_t c = 0; c < w.dims[0]; ++c) y[r] += x[c] * w.values[r * w.dims[0] + c];
    }
    if (const auto bias = model_.tensors.find(name + ".bias"); bias != model_.tensors.end()) {
      for (size_t r = 0; r < y.size(); ++r) y[r] += bias->second.values[r];
    }
    return y;
  }

  // What yarn multiplies the frequency of pair i with: pairs from the one that makes 32 turns over
  // the original context to the one that makes a single turn go from 1 to 1 / factor.
  double YarnStretch(int i) const {
    const auto pair = [&](double turns) {
      return head_dim_ * std::log(kYarnContext / (turns * 2 * std::acos(-1))) /
             (2 * std::log(kRopeBase));
    };
    const double first = std::max(0.0, std::floor(pair(32))), last = std::ceil(pair(1));
    const double stretched = std::clamp((i - first) / (last - first), 0.0, 1.0);
    return (1 - stretched) + stretched / o_.rope_yarn_factor;
  }

  void Rope(Row& x, int position, int layer) const {
    const int half = head_dim_ / 2;
    const auto factors = model_.tensors.find("rope_freqs.weight");
    for (size_t head = 0; head < x.size(); head += head_dim_) {
      for (int i = 0; i < half; ++i) {
        const double base = gemma() && !local(layer) ? kGlobalRopeBase : kRopeBase;
        double angle = position / std::pow(base, 2.0 * i / head_dim_);
        if (o_.rope_linear_factor > 0 && !local(layer)) angle /= o_.rope_linear_factor;
        if (factors != model_.tensors.end()) angle /= factors->second.values[i];
        const bool llama = o_.architecture == "llama";
        double& a = x[head + (llama ? 2 * i : i)];
        double& b = x[head + (llama ? 2 * i + 1 : i + half)];
        const double a0 = a, b0 = b;
        double magnitude = 1;
        if (o_.rope_yarn_factor > 0) {
          angle *= YarnStretch(i);
          magnitude = 1 + 0.1 * std::log(o_.rope_yarn_factor);
        }
        a = magnitude * (a0 * std::cos(angle) - b0 * std::sin(angle));
        b = magnitude * (a0 * std::sin(angle) + b0 * std::cos(angle));
      }
    }
  }

  Row Attend(const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values,
             int layer) const {
    Row out(q.size(), 0);
    const size_t window = local(layer) ? o_.window : keys.size();
    const size_t first = keys.size() > window ? keys.size() - window : 0;
    const int group = o_.num_heads / o_.num_kv_heads;
    for (int h = 0; h < o_.num_heads; ++h) {
      const double* query = &q[h * head_dim_];
      const int kv = h / group * head_dim_;
      Row score(keys.size());
      for (size_t t = first; t < keys.size(); ++t) {
        for (int d = 0; d < head_dim_; ++d) score[t] += query[d] * keys[t][kv + d];
        score[t] /= std::sqrt(static_cast<double>(head_dim_));
      }
      const double max = *std::max_element(score.begin() + first, score.end());
      double sum = 0;
      for (size_t t = first; t < keys.size(); ++t) sum += score[t] = std::exp(score[t] - max);
      for (size_t t = first; t < keys.size(); ++t) {
        for (int d = 0; d < head_dim_; ++d) {
          out[h * head_dim_ + d] += score[t] / sum * values[t][kv + d];
        }
      }
    }
    return out;
  }

  double Activate(double x) const {
    if (!gemma()) return x / (1 + std::exp(-x));
    const double inner = std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
  }

  Row FeedForward(const Row& x, const std::string& prefix) const {
    const Row gate = Linear(x, prefix + "ffn_gate");
    const Row up = Linear(x, prefix + "ffn_up");
    Row inner(gate.size());
    for (size_t i = 0; i < inner.size(); ++i) inner[i] = Activate(gate[i]) * up[i];
    return Linear(inner, prefix + "ffn_down");
  }

 private:
  const std::vector<float>& At(const std::string& name) const {
    return model_.tensors.at(name).values;
  }
  const TinyModel& model_;
  const TinyModelOptions& o_;
  const int head_dim_;
};

void RoundToHalf(Row& x) {
  for (double& value : x) {
    const float single = static_cast<float>(value);
    uint16_t half = 0;
    float back = 0;
    kernels::FloatToHalf(&single, 1, &half);
    kernels::HalfToFloat(&half, 1, &back);
    value = back;
  }
}

void AddTo(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

TinyModel::TinyModel(const TinyModelOptions& o) : options(o) {
  std::mt19937 rng(o.seed);
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols, float scale = 1.0f) {
    std::normal_distribution<float> normal(0, scale / std::sqrt(static_cast<float>(cols)));
    Tensor& tensor = tensors[name];
    tensor.dims = {cols, rows};
    tensor.values.resize(rows * cols);
    for (float& value : tensor.values) value = normal(rng);
  };
  const auto vector = [&](const std::string& name, int64_t size, float mean, float spread) {
    std::normal_distribution<float> normal(mean, spread);
    Tensor& tensor = tensors[name];
    tensor.dims = {size};
    tensor.values.resize(size);
    for (float& value : tensor.values) value = normal(rng);
  };
  const int64_t q_dim = int64_t{head_dim()} * o.num_heads;
  const int64_t kv_dim = int64_t{head_dim()} * o.num_kv_heads;
  // Embeddings of unit-sized entries: logits then spread over a few units and distributions are
  // neither flat nor certain.
  matrix("token_embd.weight", kVocabSize, o.embedding_dim, 4.0f);
  if (!o.tied_embeddings) matrix("output.weight", kVocabSize, o.embedding_dim, 4.0f);
  vector("output_norm.weight", o.embedding_dim, 1, 0.1f);
  for (int i = 0; i < o.num_layers; ++i) {
    const std::string prefix = StrCat("blk.", i, ".");
    vector(prefix + "attn_norm.weight", o.embedding_dim, 1, 0.1f);
    matrix(prefix + "attn_q.weight", q_dim, o.embedding_dim, 2.0f);
    matrix(prefix + "attn_k.weight", kv_dim, o.embedding_dim, 2.0f);
    matrix(prefix + "attn_v.weight", kv_dim, o.embedding_dim);
    matrix(prefix + "attn_output.weight", o.embedding_dim, q_dim);
    if (o.architecture == "qwen2") {
      vector(prefix + "attn_q.bias", q_dim, 0, 0.5f);
      vector(prefix + "attn_k.bias", kv_dim, 0, 0.5f);
      vector(prefix + "attn_v.bias", kv_dim, 0, 0.5f);
    }
    if (o.architecture == "gemma3") {
      vector(prefix + "post_attention_norm.weight", o.embedding_dim, 1, 0.3f);
      vector(prefix + "post_ffw_norm.weight", o.embedding_dim, 1, 0.3f);
    }
    if (o.architecture == "qwen3" || o.architecture == "gemma3") {
      vector(prefix + "attn_q_norm.weight", head_dim(), 1, 0.3f);
      vector(prefix + "attn_k_norm.weight", head_dim(), 1, 0.3f);
    }
    vector(prefix + "ffn_norm.weight", o.embedding_dim, 1, 0.1f);
    matrix(prefix + "ffn_gate.weight", o.feed_forward_dim, o.embedding_dim);
    matrix(prefix + "ffn_up.weight", o.feed_forward_dim, o.embedding_dim);
    matrix(prefix + "ffn_down.weight", o.embedding_dim, o.feed_forward_dim);
  }
  if (o.rope_factors) {
    vector("rope_freqs.weight", head_dim() / 2, 0, 0);
    std::vector<float>& factors = tensors["rope_freqs.weight"].values;
    for (size_t i = 0; i < factors.size(); ++i) factors[i] = 1.0f + static_cast<float>(i);
  }
}

std::string TinyModel::Serialize(const std::vector<std::string>& skip,
                                 const std::function<void(GgufWriter&)>& edit) const {
  GgufWriter writer;
  const auto wanted = [&](const std::string& name) {
    return std::find(skip.begin(), skip.end(), name) == skip.end();
  };
  const std::string a = options.architecture + ".";
  const auto number = [&](const std::string& key, uint32_t value) {
    if (wanted(a + key)) writer.AddUint32(a + key, value);
  };
  if (wanted("general.architecture")) {
    writer.AddString("general.architecture", options.architecture);
  }
  number("block_count", options.num_layers);
  number("context_length", options.context_length);
  number("embedding_length", options.embedding_dim);
  number("feed_forward_length", options.feed_forward_dim);
  number("attention.head_count", options.num_heads);
  number("attention.head_count_kv", options.num_kv_heads);
  if (options.head_dim > 0) {
    number("attention.key_length", options.head_dim);
    number("attention.value_length", options.head_dim);
  }
  if (wanted(a + "attention.layer_norm_rms_epsilon")) {
    writer.AddFloat(a + "attention.layer_norm_rms_epsilon", kEpsilon);
  }
  if (options.rope_linear_factor > 0) {
    writer.AddString(a + "rope.scaling.type", "linear");
    writer.AddFloat(a + "rope.scaling.factor", options.rope_linear_factor);
  }
  if (options.rope_yarn_factor > 0) {
    writer.AddString(a + "rope.scaling.type", "yarn");
    writer.AddFloat(a + "rope.scaling.factor", options.rope_yarn_factor);
    number("rope.scaling.original_context_length", kYarnContext);
  }
  if (options.architecture == "gemma3") {
    number("attention.sliding_window", options.window);
    number("attention.sliding_window_pattern", kWindowPattern);
    writer.AddFloat(a + "rope.freq_base", kGlobalRopeBase);
  }
  const std::vector<std::string> tokens = Tokens();
  CAIRN_CHECK(static_cast<int>(tokens.size()) == kVocabSize);
  std::vector<int32_t> types(tokens.size(), 1);
  std::fill(types.begin() + kEnd, types.end(), 3);
  const std::vector<std::string> merges = {"t h", "h e", "i n", "e r"};
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", "gpt-2");
  writer.AddStrings("tokenizer.ggml.tokens", tokens);
  writer.AddInts("tokenizer.ggml.token_type", types);
  writer.AddStrings("tokenizer.ggml.merges", merges);
  writer.AddUint32("tokenizer.ggml.eos_token_id", kEnd);
  if (edit) edit(writer);
  for (const auto& [name, tensor] : tensors) {
    if (wanted(name))
      writer.AddTensor(name, kernels::DType::kF32, tensor.dims, Bytes(tensor.values));
  }
  absl::StatusOr<std::string> bytes = writer.Serialize();
  CAIRN_CHECK(bytes.ok());
  return *std::move(bytes);
}

std::string TinyModel::WriteTemp(const std::string& name) const {
  struct TempFiles {
    ~TempFiles() {
      for (const std::string& path : paths) std::remove(path.c_str());
    }
    std::vector<std::string> paths;
  };
  static TempFiles files;  // removed when the test program ends
  const char* dir = std::getenv("TMPDIR");
  const std::string path =
      StrCat(dir != nullptr ? dir : "/tmp", "/cairn_tiny_", name, "_", getpid(), ".gguf");
  CAIRN_CHECK(WriteFileAtomic(path, Serialize()).ok());
  files.paths.push_back(path);
  return path;
}

std::vector<std::vector<double>> ReferenceLogits(const TinyModel& model,
                                                 const std::vector<TokenId>& tokens) {
  const Reference ref(model);
  std::vector<std::vector<Row>> keys(model.options.num_layers), values(model.options.num_layers);
  std::vector<Row> logits;
  for (size_t position = 0; position < tokens.size(); ++position) {
    Row x = ref.Embed(tokens[position]);
    for (int layer = 0; layer < model.options.num_layers; ++layer) {
      const std::string prefix = StrCat("blk.", layer, ".");
      const Row normed = ref.Norm(x, prefix + "attn_norm.weight");
      Row q = ref.Linear(normed, prefix + "attn_q");
      Row k = ref.Linear(normed, prefix + "attn_k");
      Row v = ref.Linear(normed, prefix + "attn_v");
      ref.NormHeads(q, prefix + "attn_q_norm.weight");
      ref.NormHeads(k, prefix + "attn_k_norm.weight");
      ref.Rope(q, static_cast<int>(position), layer);
      ref.Rope(k, static_cast<int>(position), layer);
      RoundToHalf(k);
      RoundToHalf(v);
      keys[layer].push_back(k);
      values[layer].push_back(v);
      const Row attended = ref.Attend(q, keys[layer], values[layer], layer);
      Row out = ref.Linear(attended, prefix + "attn_output");
      if (ref.gemma()) out = ref.Norm(out, prefix + "post_attention_norm.weight");
      AddTo(x, out);
      out = ref.FeedForward(ref.Norm(x, prefix + "ffn_norm.weight"), prefix);
      if (ref.gemma()) out = ref.Norm(out, prefix + "post_ffw_norm.weight");
      AddTo(x, out);
    }
    const std::string output = model.options.tied_embeddings ? "token_embd" : "output";
    logits.push_back(ref.Linear(ref.Norm(x, "output_norm.weight"), output));
  }
  return logits;
}

}  // namespace cairn::engine::testing
