// DequantizeRow against the gguf Python package (tests/data/kernels/make_dequantize.py).
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/matmul.h"
#include "kernels/testing/random_weights.h"

namespace cairn::kernels {
namespace {

uint32_t Hex(const std::string& text, size_t at, size_t digits) {
  return static_cast<uint32_t>(std::strtoul(text.substr(at, digits).c_str(), nullptr, 16));
}

TEST(DequantizeTest, EqualsTheGgufPackage) {
  std::ifstream file(CAIRN_SOURCE_DIR "/tests/data/kernels/dequantize.txt");
  ASSERT_TRUE(file.is_open());
  std::map<std::string, int> seen;
  std::string name, block_hex, values_hex;
  while (file >> name >> block_hex >> values_hex) {
    ++seen[name];
    for (DType type : kAllTypes) {
      if (Info(type).name != name) continue;
      std::vector<uint8_t> block;
      for (size_t i = 0; i < block_hex.size(); i += 2) {
        block.push_back(static_cast<uint8_t>(Hex(block_hex, i, 2)));
      }
      std::vector<float> got(values_hex.size() / 8);
      DequantizeRow(type, block.data(), static_cast<int64_t>(got.size()), got.data());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], std::bit_cast<float>(Hex(values_hex, 8 * i, 8))) << name << " " << i;
      }
    }
  }
  for (DType type : kAllTypes) {
    if (type == DType::kF32) continue;
    EXPECT_GT(seen[std::string(Info(type).name)], 0) << Info(type).name;
  }
}

TEST(DequantizeTest, F32IsCopiedAndNothingIsWrittenBeyond) {
  std::mt19937 rng(1);
  for (DType type : kAllTypes) {
    const int64_t n = 2 * Info(type).block_elements;
    const std::vector<uint8_t> bytes = RandomWeights(type, 1, n, &rng);
    std::vector<float> out(n + 4, 5.0f);
    DequantizeRow(type, bytes.data(), n, out.data());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[n + i], 5.0f);
    if (type == DType::kF32) {
      EXPECT_EQ(std::memcmp(bytes.data(), out.data(), 4 * n), 0);
    }
  }
}

}  // namespace
}  // namespace cairn::kernels
