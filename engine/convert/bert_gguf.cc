#include "engine/convert/bert_gguf.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/strings.h"
#include "kernels/half.h"

namespace cairn::engine {
namespace {

constexpr int64_t kMaxDimension = int64_t{1} << 24;

struct NamePair {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr NamePair kModelNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"pooler.dense", "cls"},
    {"classifier", "cls.output"},
};

constexpr NamePair kLayerNames[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
};

// llama.cpp's enum llama_pooling_type.
std::optional<uint32_t> PoolingNumber(std::string_view pooling) {
  if (pooling == "mean") return 1;
  if (pooling == "cls") return 2;
  if (pooling == "rank") return 4;
  return std::nullopt;
}

// The tensors by name, taken out one by one in the order of the file.
class TensorPicker {
 public:
  TensorPicker(std::vector<BertTensor> tensors, GgufWriter* writer) : writer_(writer) {
    for (BertTensor& tensor : tensors) {
      if (!by_name_.emplace(tensor.name, std::move(tensor)).second) duplicate_ = true;
    }
  }

  absl::StatusOr<const BertTensor*> Peek(const std::string& name) const {
    const auto it = by_name_.find(name);
    if (it == by_name_.end())
      return absl::InvalidArgumentError(StrCat("BERT: tensor '", name, "' is missing"));
    return &it->second;
  }

  bool Has(const std::string& name) const { return by_name_.count(name) > 0; }
  void Drop(const std::string& name) { by_name_.erase(name); }

  // rows = 0 asks for a vector.
  absl::Status Add(const std::string& name, int64_t rows, int64_t cols) {
    CAIRN_ASSIGN_OR_RETURN(const BertTensor* tensor, Peek(name));
    if (tensor->rows != rows || tensor->cols != cols) {
      return absl::InvalidArgumentError(StrCat("BERT: tensor '", name, "' has shape [",
                                               tensor->rows, ", ", tensor->cols, "], expected [",
                                               rows, ", ", cols, "]"));
    }
    std::vector<int64_t> dims = {cols};
    if (rows > 0) dims.push_back(rows);
    auto node = by_name_.extract(name);
    writer_->AddTensor(name, node.mapped().type, std::move(dims), std::move(node.mapped().data));
    return absl::OkStatus();
  }

  absl::Status AddLinear(const std::string& name, int64_t rows, int64_t cols) {
    CAIRN_RETURN_IF_ERROR(Add(name + ".weight", rows, cols));
    return Add(name + ".bias", 0, rows);
  }

  absl::Status AddNorm(const std::string& name, int64_t size) {
    CAIRN_RETURN_IF_ERROR(Add(name + ".weight", 0, size));
    return Add(name + ".bias", 0, size);
  }

  absl::Status CheckEmpty() const {
    if (duplicate_) return absl::InvalidArgumentError("BERT: a tensor appears twice");
    if (by_name_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        StrCat("BERT: unexpected tensor '", by_name_.begin()->first, "'"));
  }

 private:
  std::map<std::string, BertTensor> by_name_;
  GgufWriter* writer_;
  bool duplicate_ = false;
};

absl::Status CheckTraits(const BertTraits& traits, int64_t hidden, int64_t positions) {
  if (!PoolingNumber(traits.pooling)) {
    return absl::InvalidArgumentError(StrCat("BERT: unknown pooling '", traits.pooling, "'"));
  }
  if (traits.num_heads <= 0 || hidden % traits.num_heads != 0) {
    return absl::InvalidArgumentError(
        StrCat("BERT: ", traits.num_heads, " heads do not divide hidden size ", hidden));
  }
  if (traits.context_length <= 0 || traits.context_length > positions) {
    return absl::InvalidArgumentError(StrCat("BERT: context length ", traits.context_length,
                                             " is not within 1..", positions, " positions"));
  }
  if (!(traits.layer_norm_epsilon > 0) || traits.layer_norm_epsilon > 1e-2f) {
    return absl::InvalidArgumentError(
        StrCat("BERT: layer norm epsilon ", traits.layer_norm_epsilon, " is out of range"));
  }
  return absl::OkStatus();
}

void AddMetadata(const BertTraits& traits, int64_t layers, int64_t hidden, int64_t feed_forward,
                 GgufWriter* writer) {
  writer->AddString("general.architecture", "bert");
  writer->AddString("general.name", traits.name);
  writer->AddString("general.license", traits.license);
  writer->AddUint32("bert.block_count", static_cast<uint32_t>(layers));
  writer->AddUint32("bert.context_length", static_cast<uint32_t>(traits.context_length));
  writer->AddUint32("bert.embedding_length", static_cast<uint32_t>(hidden));
  writer->AddUint32("bert.feed_forward_length", static_cast<uint32_t>(feed_forward));
  writer->AddUint32("bert.attention.head_count", static_cast<uint32_t>(traits.num_heads));
  writer->AddFloat("bert.attention.layer_norm_epsilon", traits.layer_norm_epsilon);
  writer->AddBool("bert.attention.causal", false);
  writer->AddUint32("bert.pooling_type", *PoolingNumber(traits.pooling));
  writer->AddString("cairn.embedding.query_prefix", traits.query_prefix);
  writer->AddString("cairn.embedding.passage_prefix", traits.passage_prefix);
}

}  // namespace

std::optional<std::string> GgufNameOfBert(std::string_view name) {
  if (name.substr(0, 5) == "bert.") name.remove_prefix(5);
  if (name == "embeddings.position_ids") return "";
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view stem = name.substr(0, dot);
  const std::string_view suffix = name.substr(dot);
  if (suffix != ".weight" && suffix != ".bias") return std::nullopt;
  for (const NamePair& pair : kModelNames) {
    if (stem == pair.hugging_face) return StrCat(pair.gguf, suffix);
  }
  constexpr std::string_view kLayer = "encoder.layer.";
  if (stem.substr(0, kLayer.size()) != kLayer) return std::nullopt;
  stem.remove_prefix(kLayer.size());
  const size_t after_number = stem.find('.');
  int layer = 0;
  if (after_number == std::string_view::npos ||
      !absl::SimpleAtoi(ToAbsl(stem.substr(0, after_number)), &layer)) {
    return std::nullopt;
  }
  stem.remove_prefix(after_number + 1);
  for (const NamePair& pair : kLayerNames) {
    if (stem == pair.hugging_face) return StrCat("blk.", layer, ".", pair.gguf, suffix);
  }
  return std::nullopt;
}

absl::Status AddBert(const BertTraits& traits, std::vector<BertTensor> tensors,
                     GgufWriter* writer) {
  for (const BertTensor& tensor : tensors) {
    if (tensor.rows < 0 || tensor.cols <= 0 || tensor.rows > kMaxDimension ||
        tensor.cols > kMaxDimension) {
      return absl::InvalidArgumentError(StrCat("BERT: tensor '", tensor.name, "' has shape [",
                                               tensor.rows, ", ", tensor.cols, "]"));
    }
  }
  TensorPicker picker(std::move(tensors), writer);
  CAIRN_ASSIGN_OR_RETURN(const BertTensor* words, picker.Peek("token_embd.weight"));
  CAIRN_ASSIGN_OR_RETURN(const BertTensor* positions, picker.Peek("position_embd.weight"));
  CAIRN_ASSIGN_OR_RETURN(const BertTensor* types, picker.Peek("token_types.weight"));
  CAIRN_ASSIGN_OR_RETURN(const BertTensor* ffn, picker.Peek("blk.0.ffn_up.weight"));
  const int64_t hidden = words->cols;
  const int64_t num_words = words->rows, num_positions = positions->rows, num_types = types->rows;
  const int64_t feed_forward = ffn->rows;
  int64_t layers = 0;
  while (picker.Has(StrCat("blk.", layers, ".ffn_up.weight"))) ++layers;
  CAIRN_RETURN_IF_ERROR(CheckTraits(traits, hidden, num_positions));
  AddMetadata(traits, layers, hidden, feed_forward, writer);

  CAIRN_RETURN_IF_ERROR(picker.Add("token_embd.weight", num_words, hidden));
  CAIRN_RETURN_IF_ERROR(picker.Add("position_embd.weight", num_positions, hidden));
  CAIRN_RETURN_IF_ERROR(picker.Add("token_types.weight", num_types, hidden));
  CAIRN_RETURN_IF_ERROR(picker.AddNorm("token_embd_norm", hidden));
  for (int64_t i = 0; i < layers; ++i) {
    const std::string block = StrCat("blk.", i, ".");
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      CAIRN_RETURN_IF_ERROR(picker.AddLinear(block + name, hidden, hidden));
    }
    CAIRN_RETURN_IF_ERROR(picker.AddNorm(block + "attn_output_norm", hidden));
    CAIRN_RETURN_IF_ERROR(picker.AddLinear(block + "ffn_up", feed_forward, hidden));
    CAIRN_RETURN_IF_ERROR(picker.AddLinear(block + "ffn_down", hidden, feed_forward));
    CAIRN_RETURN_IF_ERROR(picker.AddNorm(block + "layer_output_norm", hidden));
  }
  if (traits.pooling == "rank") {
    CAIRN_RETURN_IF_ERROR(picker.AddLinear("cls", hidden, hidden));
    CAIRN_RETURN_IF_ERROR(picker.AddLinear("cls.output", 1, hidden));
  } else {
    picker.Drop("cls.weight");
    picker.Drop("cls.bias");
  }
  return picker.CheckEmpty();
}

std::vector<uint8_t> EncodeF32(std::span<const float> values) {
  std::vector<uint8_t> bytes(values.size_bytes());
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<uint8_t> EncodeF16(std::span<const float> values) {
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), kernels::FloatToHalfBits);
  std::vector<uint8_t> bytes(halves.size() * sizeof(uint16_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), halves.data(), bytes.size());
  return bytes;
}

std::vector<uint8_t> EncodeQ8_0(std::span<const int8_t> quants, std::span<const float> row_scales) {
  constexpr size_t kBlock = 32;
  const size_t blocks_per_row = quants.size() / row_scales.size() / kBlock;
  std::vector<uint8_t> bytes(quants.size() / kBlock * (kBlock + sizeof(uint16_t)));
  uint8_t* out = bytes.data();
  const int8_t* in = quants.data();
  for (const float scale : row_scales) {
    const uint16_t half = kernels::FloatToHalfBits(scale);
    for (size_t b = 0; b < blocks_per_row; ++b) {
      std::memcpy(out, &half, sizeof(half));
      std::memcpy(out + sizeof(half), in, kBlock);
      out += sizeof(half) + kBlock;
      in += kBlock;
    }
  }
  return bytes;
}

}  // namespace cairn::engine
