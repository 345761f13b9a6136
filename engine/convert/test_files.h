// Tiny encoder files in the published formats, for tests: one layer, hidden size 32.
#ifndef CAIRN_ENGINE_CONVERT_TEST_FILES_H_
#define CAIRN_ENGINE_CONVERT_TEST_FILES_H_

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/strings.h"

namespace cairn::engine::testing {

inline constexpr int kHidden = 32;
inline constexpr int kFeedForward = 64;
inline constexpr int kWords = 9;
inline constexpr int kPositions = 4;

// Appends little-endian values.
class Bytes {
 public:
  template <typename T>
  Bytes& Put(T value) {
    data_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& Text(std::string_view text) {
    data_.append(text);
    return *this;
  }
  void AlignTo(size_t alignment) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  }
  size_t size() const { return data_.size(); }
  const std::string& str() const { return data_; }

 private:
  std::string data_;
};

inline std::span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Calls `parse` on every proper prefix of `file`, and on copies with one bit changed, once in each
// byte. The parser must return; that it touches nothing outside the bytes is the sanitizer's to
// see, hence the copies of exact size. Returns how many prefixes were accepted.
inline int FeedDamaged(const std::string& file,
                       const std::function<bool(std::span<const uint8_t>)>& parse) {
  int accepted = 0;
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<uint8_t> prefix(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
    accepted += parse(prefix);
  }
  std::mt19937 random(1);
  std::vector<uint8_t> copy(file.begin(), file.end());
  for (uint8_t& byte : copy) {
    const uint8_t original = byte;
    byte ^= static_cast<uint8_t>(1 << random() % 8);
    parse(copy);
    byte = original;
  }
  return accepted;
}

// {HF name without "bert.", rows (0 = vector), cols}.
struct NamedShape {
  std::string name;
  int64_t rows, cols;
};
inline std::vector<NamedShape> BertShapes(bool classifier) {
  std::vector<NamedShape> shapes = {{"embeddings.word_embeddings.weight", kWords, kHidden},
                                    {"embeddings.position_embeddings.weight", kPositions, kHidden},
                                    {"embeddings.token_type_embeddings.weight", 2, kHidden},
                                    {"embeddings.LayerNorm.weight", 0, kHidden},
                                    {"embeddings.LayerNorm.bias", 0, kHidden}};
  const std::string layer = "encoder.layer.0.";
  const auto linear = [&](const std::string& name, int64_t rows, int64_t cols) {
    shapes.push_back({name + ".weight", rows, cols});
    shapes.push_back({name + ".bias", 0, rows});
  };
  const auto norm = [&](const std::string& name) {
    shapes.push_back({name + ".weight", 0, kHidden});
    shapes.push_back({name + ".bias", 0, kHidden});
  };
  for (const char* name : {"query", "key", "value"})
    linear(layer + "attention.self." + name, kHidden, kHidden);
  linear(layer + "attention.output.dense", kHidden, kHidden);
  norm(layer + "attention.output.LayerNorm");
  linear(layer + "intermediate.dense", kFeedForward, kHidden);
  linear(layer + "output.dense", kHidden, kFeedForward);
  norm(layer + "output.LayerNorm");
  if (classifier) {
    linear("pooler.dense", kHidden, kHidden);
    linear("classifier", 1, kHidden);
  }
  return shapes;
}

// Value i of a tensor is i / 8.
inline std::string MakeSafetensors() {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  for (const NamedShape& shape : BertShapes(/*classifier=*/false)) {
    const int64_t count = std::max<int64_t>(shape.rows, 1) * shape.cols;
    const std::string dims =
        shape.rows > 0 ? StrCat(shape.rows, ",", shape.cols) : StrCat(shape.cols);
    StrAppend(&header, ",\"", shape.name, "\":{\"dtype\":\"F32\",\"shape\":[", dims,
              "],\"data_offsets\":[", data.size(), ",", data.size() + count * 4, "]}");
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(i) / 8;
      data.append(reinterpret_cast<const char*>(&value), 4);
    }
  }
  header += "}";
  return Bytes().Put<uint64_t>(header.size()).Text(header).Text(data).str();
}

inline constexpr std::string_view kVocabTxt =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[unused1]\nhello\n##lo\n\u00e9t\u00e9\n";

}  // namespace cairn::engine::testing

#endif  // CAIRN_ENGINE_CONVERT_TEST_FILES_H_
