// Every instruction set against the definition: dequantised weights times dequantised input, in
// double.
#include "kernels/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/matmul_dispatch.h"
#include "kernels/testing/emulated_avx512_tables.h"
#include "kernels/testing/isas.h"
#include "kernels/testing/random_weights.h"

namespace cairn::kernels {
namespace {

bool IsFloat(DType type) { return Info(type).block_elements == 1; }

struct Case {
  const MatMulKernels* kernels;
  std::string isa;
  DType type;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (DType type : kAllTypes) {
    for (Isa isa : AvailableIsas()) {
      cases.push_back({&MatMulKernelsOf(isa), std::string(IsaName(isa)), type});
    }
    cases.push_back({&kMatMulEmulatedAvx512, "emulated_avx512", type});
    cases.push_back({&kMatMulEmulatedAmx, "emulated_amx", type});
  }
  return cases;
}

class MatMulTest : public testing::TestWithParam<Case> {
 protected:
  PackedMatrix Pack(const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols) {
    auto packed =
        PackedMatrix::Pack(GetParam().type, bytes.data(), bytes.size(), rows, cols, pool_);
    EXPECT_TRUE(packed.ok()) << packed.status();
    return std::move(packed).value();
  }

  std::vector<float> Run(const PackedMatrix& w, const float* x, int64_t n,
                         const float* bias = nullptr) {
    std::vector<float> y(n * w.rows(), NAN);
    const MatMulOutput out = {&w, bias, y.data(), w.rows()};
    MatMulGroupWith(*GetParam().kernels, {x, n, w.cols()}, {&out, 1}, pool_);
    return y;
  }

  WorkerPool pool_{2};
};

// What a row of x becomes: q * d with q = x * 127 / amax rounded to even, d = amax / 127, in F32.
std::vector<double> RoundedInputOf(DType type, const float* x, int64_t cols) {
  std::vector<double> out(x, x + cols);
  if (IsFloat(type)) return out;
  const int64_t block = Info(type).block_elements;
  for (int64_t i = 0; i < cols; i += block) {
    float amax = 0;
    for (int64_t j = i; j < i + block; ++j) amax = std::max(amax, std::fabs(x[j]));
    const float inverse = amax == 0 ? 0.0f : 127.0f / amax;
    const float d = amax / 127.0f;
    for (int64_t j = i; j < i + block; ++j) {
      const float scaled = x[j] * inverse;
      out[j] = std::nearbyint(scaled) * static_cast<double>(d);
    }
  }
  return out;
}

// Checks y = x w^T + bias. Each output is a sum of `steps` F32 terms, built with at most 4
// roundings each: the error is below (steps + 4) * 2^-24 times the sum of magnitudes. Within a
// block the integers are exact, but scale * q - min can cancel, so a weight counts with twice the
// largest magnitude of its row.
void ExpectProduct(DType type, const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols,
                   const float* x, int64_t n, const float* bias, const std::vector<float>& y) {
  const int64_t row_bytes = cols / Info(type).block_elements * Info(type).block_bytes;
  const double steps = IsFloat(type) ? cols : 2.0 * cols / Info(type).block_elements;
  std::vector<float> w(cols);
  std::vector<std::vector<double>> inputs;
  for (int64_t t = 0; t < n; ++t) inputs.push_back(RoundedInputOf(type, x + t * cols, cols));
  for (int64_t r = 0; r < rows; ++r) {
    DequantizeRow(type, bytes.data() + r * row_bytes, cols, w.data());
    double largest = 0;
    for (float v : w) largest = std::max<double>(largest, std::fabs(v));
    for (int64_t t = 0; t < n; ++t) {
      double sum = bias == nullptr ? 0.0 : bias[r], magnitude = std::fabs(sum);
      for (int64_t c = 0; c < cols; ++c) {
        sum += w[c] * inputs[t][c];
        magnitude += 2 * largest * std::fabs(inputs[t][c]);
      }
      ASSERT_NEAR(y[t * rows + r], sum, (steps + 4) * 0x1p-24 * magnitude + 1e-30)
          << Info(type).name << " " << rows << "x" << cols << " row " << r << " token " << t;
    }
  }
}

TEST_P(MatMulTest, MatchesDefinitionOnAwkwardShapes) {
  const DType type = GetParam().type;
  std::mt19937 rng(1);
  const int unit = IsFloat(type) ? 1 : Info(type).block_elements;
  const std::vector<int> counts =
      IsFloat(type) ? std::vector<int>{1, 7, 8, 33, 100} : std::vector<int>{1, 3, 5};
  for (int64_t rows : {1, 15, 16, 17, 50}) {
    for (int count : counts) {
      const int64_t cols = int64_t{count} * unit;
      const std::vector<uint8_t> bytes = RandomWeights(type, rows, cols, &rng);
      const PackedMatrix w = Pack(bytes, rows, cols);
      for (int64_t n : {1, 2, 3, 4, 5, 9}) {
        const std::vector<float> x = RandomFloats(n * cols, &rng);
        const std::vector<float> bias = RandomFloats(rows, &rng);
        ExpectProduct(type, bytes, rows, cols, x.data(), n, nullptr, Run(w, x.data(), n));
        ExpectProduct(type, bytes, rows, cols, x.data(), n, bias.data(),
                      Run(w, x.data(), n, bias.data()));
      }
    }
  }
}

// More columns than one chunk of unpacked weights, more tokens than one block.
TEST_P(MatMulTest, MatchesDefinitionBeyondOneCacheBlock) {
  const DType type = GetParam().type;
  std::mt19937 rng(2);
  const int64_t rows = 33, cols = 256 * 9, n = 150;
  const std::vector<uint8_t> bytes = RandomWeights(type, rows, cols, &rng);
  const std::vector<float> x = RandomFloats(n * cols, &rng);
  ExpectProduct(type, bytes, rows, cols, x.data(), n, nullptr,
                Run(Pack(bytes, rows, cols), x.data(), n));
}

// Tiles sum the same integers as vectors and then take the same steps in F32, whatever the number
// of tokens, of panels and of blocks.
TEST(MatMulTilesTest, EqualAvx512ToTheBit) {
  std::vector<std::pair<const MatMulKernels*, const MatMulKernels*>> pairs = {
      {&kMatMulEmulatedAmx, &kMatMulEmulatedAvx512}};
  if (BestIsa() == Isa::kAmx) pairs.emplace_back(&kMatMulAmx, &kMatMulAvx512);
  WorkerPool pool(2);
  std::mt19937 rng(6);
  for (DType type : kAllTypes) {
    for (int64_t rows : {16, 50}) {
      for (int64_t cols : {256, 5 * 256}) {
        const std::vector<uint8_t> bytes = RandomWeights(type, rows, cols, &rng);
        const PackedMatrix w =
            *PackedMatrix::Pack(type, bytes.data(), bytes.size(), rows, cols, pool);
        const std::vector<float> bias = RandomFloats(rows, &rng);
        for (int64_t n : {12, 16, 40, 530}) {
          const std::vector<float> x = RandomFloats(n * cols, &rng);
          for (const auto& [tiles, vectors] : pairs) {
            std::vector<float> y[2];
            for (int i = 0; i < 2; ++i) {
              y[i].assign(n * rows, NAN);
              const MatMulOutput out = {&w, bias.data(), y[i].data(), rows};
              MatMulGroupWith(i == 0 ? *tiles : *vectors, {x.data(), n, cols}, {&out, 1}, pool);
            }
            ASSERT_EQ(std::memcmp(y[0].data(), y[1].data(), n * rows * sizeof(float)), 0)
                << Info(type).name << " " << rows << "x" << cols << " n " << n;
          }
        }
      }
    }
  }
}

// The temperature-0 promise: what else is in the batch changes nothing, to the bit.
TEST_P(MatMulTest, RowOfABatchEqualsTheRowAlone) {
  const DType type = GetParam().type;
  std::mt19937 rng(3);
  const int64_t rows = 40, cols = 1536, n = 77;
  const std::vector<uint8_t> bytes = RandomWeights(type, rows, cols, &rng);
  const PackedMatrix w = Pack(bytes, rows, cols);
  const std::vector<float> x = RandomFloats(n * cols, &rng);
  const std::vector<float> all = Run(w, x.data(), n);
  for (int64_t t = 0; t < n; ++t) {
    const std::vector<float> alone = Run(w, x.data() + t * cols, 1);
    ASSERT_EQ(std::memcmp(alone.data(), all.data() + t * rows, rows * sizeof(float)), 0) << t;
  }
}

// Narrow sums must not saturate when every product has its largest magnitude, of either sign.
TEST_P(MatMulTest, ExtremeValuesDoNotSaturate) {
  const DType type = GetParam().type;
  const int64_t rows = 16, cols = 512, n = 4;
  const std::vector<uint8_t> bytes = ExtremeWeights(type, rows, cols);
  const PackedMatrix w = Pack(bytes, rows, cols);
  std::vector<float> x(n * cols);
  for (int64_t c = 0; c < cols; ++c) {
    x[c] = 1;
    x[cols + c] = -1;
    x[2 * cols + c] = c % 2 ? 1.0f : -1.0f;
    x[3 * cols + c] = 0;
  }
  ExpectProduct(type, bytes, rows, cols, x.data(), n, nullptr, Run(w, x.data(), n));
}

TEST_P(MatMulTest, GroupEqualsSeparateProductsWithStrides) {
  const DType type = GetParam().type;
  std::mt19937 rng(4);
  const int64_t cols = 512, n = 6, x_stride = cols + 3;
  const std::vector<uint8_t> bytes_a = RandomWeights(type, 40, cols, &rng);
  const std::vector<uint8_t> bytes_b = RandomWeights(DType::kQ8_0, 8, cols, &rng);
  const std::vector<uint8_t> bytes_c = RandomWeights(DType::kQ6_K, 24, cols, &rng);
  const PackedMatrix a = Pack(bytes_a, 40, cols);
  const PackedMatrix b =
      *PackedMatrix::Pack(DType::kQ8_0, bytes_b.data(), bytes_b.size(), 8, cols, pool_);
  const PackedMatrix c =
      *PackedMatrix::Pack(DType::kQ6_K, bytes_c.data(), bytes_c.size(), 24, cols, pool_);
  const std::vector<float> x = RandomFloats(n * x_stride, &rng);
  std::vector<float> dense;
  for (int64_t t = 0; t < n; ++t)
    dense.insert(dense.end(), &x[t * x_stride], &x[t * x_stride] + cols);

  std::vector<float> y(n * 100, -7.0f);
  const MatMulOutput outputs[] = {
      {&a, nullptr, &y[0], 100}, {&b, nullptr, &y[40], 100}, {&c, nullptr, &y[48], 100}};
  MatMulGroupWith(*GetParam().kernels, {x.data(), n, x_stride}, outputs, pool_);
  const std::vector<float> ya = Run(a, dense.data(), n), yb = Run(b, dense.data(), n),
                           yc = Run(c, dense.data(), n);
  for (int64_t t = 0; t < n; ++t) {
    const float* row = &y[t * 100];
    EXPECT_TRUE(std::equal(row, row + 40, &ya[t * 40]));
    EXPECT_TRUE(std::equal(row + 40, row + 48, &yb[t * 8]));
    EXPECT_TRUE(std::equal(row + 48, row + 72, &yc[t * 24]));
    EXPECT_TRUE(std::all_of(row + 72, row + 100, [](float v) { return v == -7.0f; }));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatMulTest, testing::ValuesIn(AllCases()), [](const auto& info) {
  return std::string(Info(info.param.type).name) + "_" + info.param.isa;
});

TEST(PackTest, RefusesBadShapes) {
  WorkerPool pool(1);
  const std::vector<uint8_t> bytes(144);
  const auto pack = [&](int64_t rows, int64_t cols, size_t size) {
    return PackedMatrix::Pack(DType::kQ4_K, bytes.data(), size, rows, cols, pool).status().code();
  };
  EXPECT_EQ(pack(1, 256, 144), absl::StatusCode::kOk);
  EXPECT_EQ(pack(1, 256, 143), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(2, 256, 144), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(1, 128, 144), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(0, 256, 144), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(-1, 256, 144), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(1, 0, 144), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(INT64_MAX / 2, 1024, 144), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pack(INT64_MAX / 1024, 1024, 144), absl::StatusCode::kInvalidArgument);
}

// The whole range of scales: those that F16 holds, those that the room in int8 takes up, and blocks
// of zeros of either sign, whatever their scale.
TEST(PackTest, MXFP4ScalesAreExactOrRefused) {
  WorkerPool pool(1);
  std::mt19937 rng(8);
  for (int scale = 0; scale < 256; ++scale) {
    for (bool zero : {false, true}) {
      std::vector<uint8_t> bytes = RandomWeights(DType::kMXFP4, 1, 32, &rng);
      if (zero) {
        for (uint8_t& codes : bytes) codes &= 0x88;
      }
      bytes[0] = static_cast<uint8_t>(scale);
      const auto w = PackedMatrix::Pack(DType::kMXFP4, bytes.data(), bytes.size(), 1, 32, pool);
      if (!zero && (scale < 104 || scale > 146)) {
        EXPECT_EQ(w.status().code(), absl::StatusCode::kUnimplemented) << scale;
        continue;
      }
      ASSERT_TRUE(w.ok()) << w.status();
      std::vector<float> expected(32);
      DequantizeRow(DType::kMXFP4, bytes.data(), 32, expected.data());
      for (int i = 0; i < 32; ++i) {
        std::vector<float> x(32);
        x[i] = 127;  // rounded to 127 * 1
        float y = NAN;
        MatMul(*w, x.data(), 1, &y, pool);
        ASSERT_EQ(y, 127 * expected[i]) << "scale " << scale << " column " << i;
      }
    }
  }
}

// What the header's table says.
TEST(PackTest, TranscodedTypesTakeTheStatedMemory) {
  const auto bits = [](DType type) {
    return static_cast<double>(PackedBytes(type, 16, 256)) * 8 / (16 * 256);
  };
  EXPECT_EQ(bits(DType::kQ2_K), 5.125);
  EXPECT_EQ(bits(DType::kQ3_K), 6.5625);
  EXPECT_EQ(bits(DType::kIQ4_NL), 8.5);
  EXPECT_EQ(bits(DType::kMXFP4), 8.5);
  for (DType type : {DType::kQ4_0, DType::kQ8_0, DType::kQ6_K}) {
    EXPECT_EQ(bits(type), 8.0 * Info(type).block_bytes / Info(type).block_elements);
  }
}

TEST(PackTest, SourceMayGoAfterPacking) {
  WorkerPool pool(1);
  std::mt19937 rng(5);
  std::vector<uint8_t> bytes = RandomWeights(DType::kQ4_0, 3, 64, &rng);
  const std::vector<uint8_t> copy = bytes;
  const PackedMatrix w = *PackedMatrix::Pack(DType::kQ4_0, bytes.data(), bytes.size(), 3, 64, pool);
  std::fill(bytes.begin(), bytes.end(), 0xEE);
  const std::vector<float> x = RandomFloats(64, &rng);
  std::vector<float> y(3);
  MatMul(w, x.data(), 1, y.data(), pool);
  ExpectProduct(DType::kQ4_0, copy, 3, 64, x.data(), 1, nullptr, y);
  EXPECT_EQ(w.memory_bytes(), PackedBytes(DType::kQ4_0, 3, 64));
}

}  // namespace
}  // namespace cairn::kernels
