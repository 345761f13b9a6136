// A BERT of random weights, small enough for a test to compute by hand.
#ifndef CAIRN_ENGINE_ENCODER_TINY_MODEL_H_
#define CAIRN_ENGINE_ENCODER_TINY_MODEL_H_

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/strings.h"
#include "engine/gguf/gguf_writer.h"

namespace cairn::engine::testing {

struct TinyModel {
  static constexpr int kHidden = 32, kFeedForward = 64, kHeads = 2, kLayers = 2, kPositions = 24;
  static constexpr float kEpsilon = 1e-12f;

  std::vector<std::string> words = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  std::map<std::string, std::vector<float>> tensors;  // [rows, cols] row-major

  explicit TinyModel(uint32_t seed) : random_(seed) {
    for (char c = 'a'; c <= 'z'; ++c) words.push_back(StrCat("\u2581", std::string(1, c)));
    Matrix("token_embd.weight", static_cast<int>(words.size()), kHidden);
    Matrix("position_embd.weight", kPositions, kHidden);
    Matrix("token_types.weight", 2, kHidden);
    Norm("token_embd_norm");
    for (int i = 0; i < kLayers; ++i) {
      const std::string block = StrCat("blk.", i, ".");
      for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
        Linear(block + name, kHidden, kHidden);
      Linear(block + "ffn_up", kFeedForward, kHidden);
      Linear(block + "ffn_down", kHidden, kFeedForward);
      Norm(block + "attn_output_norm");
      Norm(block + "layer_output_norm");
    }
    Linear("cls", kHidden, kHidden);
    Linear("cls.output", 1, kHidden);
  }

  // llama.cpp's pooling numbers: 1 mean, 2 first token, 4 classifier.
  GgufWriter Writer(int pooling) const {
    GgufWriter writer;
    writer.AddString("general.architecture", "bert");
    writer.AddString("general.name", "tiny");
    writer.AddUint32("bert.block_count", kLayers);
    writer.AddUint32("bert.context_length", kPositions);
    writer.AddUint32("bert.embedding_length", kHidden);
    writer.AddUint32("bert.feed_forward_length", kFeedForward);
    writer.AddUint32("bert.attention.head_count", kHeads);
    writer.AddFloat("bert.attention.layer_norm_epsilon", kEpsilon);
    writer.AddUint32("bert.pooling_type", static_cast<uint32_t>(pooling));
    writer.AddString("cairn.embedding.query_prefix", "q ");
    writer.AddString("tokenizer.ggml.model", "bert");
    writer.AddStrings("tokenizer.ggml.tokens", words);
    std::vector<int32_t> types(words.size(), 1);
    for (const int id : {0, 2, 3, 4}) types[id] = 3;
    types[1] = 2;
    writer.AddInts("tokenizer.ggml.token_type", types);
    writer.AddUint32("tokenizer.ggml.cls_token_id", 2);
    writer.AddUint32("tokenizer.ggml.seperator_token_id", 3);
    writer.AddUint32("tokenizer.ggml.unknown_token_id", 1);
    writer.AddUint32("tokenizer.ggml.padding_token_id", 0);
    for (const auto& [name, values] : tensors) {
      if (name.substr(0, 3) == "cls" && pooling != 4) continue;
      const int rows = rows_.at(name);
      const int64_t cols = static_cast<int64_t>(values.size()) / std::max(rows, 1);
      std::vector<int64_t> dims = {cols};
      if (rows > 0) dims.push_back(rows);
      const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
      writer.AddTensor(name, kernels::DType::kF32, dims,
                       {bytes, bytes + values.size() * sizeof(float)});
    }
    return writer;
  }

  // The last layer's states [ids, hidden], in double precision and straight from the paper's
  // formulas.
  std::vector<std::vector<double>> States(const std::vector<int>& ids,
                                          const std::vector<int>& types) const;

  std::vector<double> Apply(const std::string& name, const std::vector<double>& x) const {
    const std::vector<float>& weight = tensors.at(name + ".weight");
    const std::vector<float>& bias = tensors.at(name + ".bias");
    std::vector<double> y(bias.begin(), bias.end());
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += weight[r * x.size() + c] * x[c];
    }
    return y;
  }

 private:
  std::vector<float> Random(int count, float mean, float spread) {
    std::normal_distribution<float> normal(mean, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  void Matrix(const std::string& name, int rows, int cols) {
    tensors[name] = Random(rows * cols, 0, 0.3f);
    rows_[name] = rows;
  }
  void Vector(const std::string& name, int size, float mean) {
    tensors[name] = Random(size, mean, 0.1f);
    rows_[name] = 0;
  }
  void Linear(const std::string& name, int rows, int cols) {
    Matrix(name + ".weight", rows, cols);
    Vector(name + ".bias", rows, 0);
  }
  void Norm(const std::string& name) {
    Vector(name + ".weight", kHidden, 1);
    Vector(name + ".bias", kHidden, 0);
  }

  std::vector<double> NormOf(const std::string& name, std::vector<double> x) const {
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / kHidden;
    for (const double value : x) variance += (value - mean) * (value - mean) / kHidden;
    for (int i = 0; i < kHidden; ++i) {
      x[i] = (x[i] - mean) / std::sqrt(variance + kEpsilon) * tensors.at(name + ".weight")[i] +
             tensors.at(name + ".bias")[i];
    }
    return x;
  }

  std::mt19937 random_;
  std::map<std::string, int> rows_;  // 0 = vector
};

inline std::vector<std::vector<double>> TinyModel::States(const std::vector<int>& ids,
                                                          const std::vector<int>& types) const {
  const size_t n = ids.size();
  std::vector<std::vector<double>> x(n, std::vector<double>(kHidden));
  for (size_t i = 0; i < n; ++i) {
    for (int h = 0; h < kHidden; ++h) {
      x[i][h] = tensors.at("token_embd.weight")[ids[i] * kHidden + h] +
                tensors.at("position_embd.weight")[i * kHidden + h] +
                tensors.at("token_types.weight")[types[i] * kHidden + h];
    }
    x[i] = NormOf("token_embd_norm", x[i]);
  }
  constexpr int kHeadSize = kHidden / kHeads;
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string block = StrCat("blk.", layer, ".");
    std::vector<std::vector<double>> q, k, v;
    for (const auto& row : x) {
      q.push_back(Apply(block + "attn_q", row));
      k.push_back(Apply(block + "attn_k", row));
      v.push_back(Apply(block + "attn_v", row));
    }
    std::vector<std::vector<double>> next;
    for (size_t i = 0; i < n; ++i) {
      std::vector<double> context(kHidden);
      for (int head = 0; head < kHeads; ++head) {
        std::vector<double> weights(n);
        double sum = 0;
        for (size_t j = 0; j < n; ++j) {
          double dot = 0;
          for (int d = head * kHeadSize; d < (head + 1) * kHeadSize; ++d) dot += q[i][d] * k[j][d];
          sum += weights[j] = std::exp(dot / std::sqrt(double{kHeadSize}));
        }
        for (size_t j = 0; j < n; ++j) {
          for (int d = head * kHeadSize; d < (head + 1) * kHeadSize; ++d)
            context[d] += weights[j] / sum * v[j][d];
        }
      }
      std::vector<double> row = Apply(block + "attn_output", context);
      for (int h = 0; h < kHidden; ++h) row[h] += x[i][h];
      row = NormOf(block + "attn_output_norm", row);
      std::vector<double> wide = Apply(block + "ffn_up", row);
      for (double& value : wide) value = value * (1 + std::erf(value / std::sqrt(2.0))) / 2;
      std::vector<double> out = Apply(block + "ffn_down", wide);
      for (int h = 0; h < kHidden; ++h) out[h] += row[h];
      next.push_back(NormOf(block + "layer_output_norm", out));
    }
    x = next;
  }
  return x;
}

}  // namespace cairn::engine::testing

#endif  // CAIRN_ENGINE_ENCODER_TINY_MODEL_H_
