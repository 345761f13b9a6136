// Every instruction set against formulas in double.
#include "kernels/ops.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/half.h"
#include "kernels/ops_kernels.h"
#include "kernels/testing/emulated_avx512_tables.h"
#include "kernels/testing/isas.h"
#include "kernels/testing/random_weights.h"

namespace cairn::kernels {
namespace {

constexpr double kEpsilon = 0x1p-23;  // spacing of F32 at 1
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kCounts[] = {1, 7, 8, 15, 16, 17, 63, 384, 1001};

struct Case {
  std::string isa;
  const OpsKernels* ops;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (Isa isa : AvailableIsas()) cases.push_back({std::string(IsaName(isa)), &OpsKernelsOf(isa)});
  cases.push_back({"emulated_avx512", &kOpsEmulatedAvx512});
  return cases;
}

class OpsTest : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> Random(int64_t count, float scale = 1) {
    std::vector<float> x = RandomFloats(count, &rng_);
    for (float& v : x) v *= scale;
    return x;
  }
  const OpsKernels& ops() const { return *GetParam().ops; }

  std::mt19937 rng_{1};
};

// A sum of n positive F32 terms is off by at most n * 2^-24 of itself; the rest are a few
// roundings.
TEST_P(OpsTest, RmsNorm) {
  for (int dim : kCounts) {
    const std::vector<float> x = Random(dim, 3), w = Random(dim);
    std::vector<float> y(dim);
    ops().rms_norm(x.data(), dim, w.data(), 1e-6f, y.data());
    double squares = 0;
    for (float v : x) squares += double{v} * v;
    for (int i = 0; i < dim; ++i) {
      const double want = x[i] / std::sqrt(squares / dim + 1e-6) * w[i];
      ASSERT_NEAR(y[i], want, std::fabs(want) * (dim + 8) * kEpsilon) << dim;
    }
  }
}

TEST_P(OpsTest, LayerNorm) {
  for (int dim : kCounts) {
    const std::vector<float> x = Random(dim, 3), w = Random(dim), b = Random(dim);
    std::vector<float> y(dim);
    ops().layer_norm(x.data(), dim, w.data(), b.data(), 1e-5f, y.data());
    double mean = 0, variance = 0, largest = 0;
    for (float v : x) mean += v / double(dim);
    for (float v : x) variance += (v - mean) * (v - mean) / dim;
    for (float v : x) largest = std::max<double>(largest, std::fabs(v));
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    for (int i = 0; i < dim; ++i) {
      const double want = (x[i] - mean) * inverse * w[i] + b[i];
      // The mean is off by dim * eps * largest, which inverse and weight magnify.
      const double slack =
          (largest * inverse * std::fabs(w[i]) + std::fabs(b[i])) * (dim + 8) * kEpsilon;
      ASSERT_NEAR(y[i], want, slack) << dim;
    }
  }
}

TEST_P(OpsTest, Softmax) {
  for (int dim : kCounts) {
    std::vector<float> x = Random(dim, 10);
    const std::vector<float> original = x;
    ops().softmax(x.data(), dim);
    double max = -kInf, sum = 0;
    for (float v : original) max = std::max<double>(max, v);
    for (float v : original) sum += std::exp(v - max);
    for (int i = 0; i < dim; ++i) {
      const double want = std::exp(original[i] - max) / sum;
      // exp magnifies the rounding of its argument.
      ASSERT_NEAR(x[i], want, want * (dim + 8 + std::fabs(original[i] - max)) * kEpsilon) << dim;
    }
  }
}

TEST_P(OpsTest, SoftmaxOfInfinities) {
  std::vector<float> x(21, -kInf);
  ops().softmax(x.data(), 21);
  for (float v : x) EXPECT_EQ(v, 0.0f);
  x.assign(21, -kInf);
  x[20] = -1000;
  ops().softmax(x.data(), 21);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(x[i], 0.0f);
  EXPECT_EQ(x[20], 1.0f);
}

TEST_P(OpsTest, SiluMul) {
  for (int count : kCounts) {
    std::vector<float> gate = Random(count, 10), up = Random(count), y(count);
    gate[0] = -200;  // exp(200) is beyond F32
    ops().silu_mul(gate.data(), up.data(), count, y.data());
    for (int i = 0; i < count; ++i) {
      const double want = double{gate[i]} / (1 + std::exp(-double{gate[i]})) * up[i];
      ASSERT_NEAR(y[i], want, std::fabs(want) * (8 + std::fabs(gate[i])) * kEpsilon + 1e-30)
          << gate[i];
    }
  }
}

TEST_P(OpsTest, GeluIsTheErfForm) {
  for (int count : kCounts) {
    std::vector<float> x = Random(count, 3), y(count);
    x[0] = -30;
    ops().gelu(x.data(), count, y.data());
    for (int i = 0; i < count; ++i) {
      const double want = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
      // The vector versions' erfc has an absolute error of 1.5e-7; F32 rounding beside it.
      ASSERT_NEAR(y[i], want, std::fabs(x[i]) * (0.75e-7 + 2 * kEpsilon)) << x[i];
    }
  }
}

TEST_P(OpsTest, GeluTanhMul) {
  for (int count : kCounts) {
    std::vector<float> gate = Random(count, 5), up = Random(count), y(count);
    gate[0] = -40;  // exp is beyond F32
    ops().gelu_tanh_mul(gate.data(), up.data(), count, y.data());
    for (int i = 0; i < count; ++i) {
      const double x = gate[i], z = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
      const double want = x / (1 + std::exp(-2 * z)) * up[i];
      // exp magnifies the rounding of its argument.
      ASSERT_NEAR(y[i], want, std::fabs(want) * (10 + 6 * std::fabs(z)) * kEpsilon + 1e-30) << x;
    }
  }
}

TEST_P(OpsTest, AddAddScaledAndDot) {
  for (int count : kCounts) {
    const std::vector<float> a = Random(count), b = Random(count);
    std::vector<float> y(count);
    ops().add(a.data(), b.data(), count, y.data());
    double dot = 0, magnitude = 0;
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(y[i], a[i] + b[i]);
      dot += double{a[i]} * b[i];
      magnitude += std::fabs(double{a[i]} * b[i]);
    }
    EXPECT_NEAR(ops().dot(a.data(), b.data(), count), dot, magnitude * count * kEpsilon);
    y = a;
    ops().add_scaled(b.data(), 0.75f, count, y.data());
    for (int i = 0; i < count; ++i) {
      ASSERT_NEAR(y[i], a[i] + 0.75 * b[i], 2 * kEpsilon * (std::fabs(a[i]) + std::fabs(b[i])));
    }
  }
}

TEST_P(OpsTest, PartialVectorsTouchNothingBeyond) {
  for (int count = 1; count < 40; ++count) {
    const std::vector<float> a = Random(count), b = Random(count), c = Random(count);
    const std::function<void(float*)> writers[] = {
        [&](float* y) { ops().rms_norm(a.data(), count, b.data(), 1e-6f, y); },
        [&](float* y) { ops().layer_norm(a.data(), count, b.data(), c.data(), 1e-6f, y); },
        [&](float* y) { ops().softmax(y, count); },
        [&](float* y) { ops().silu_mul(a.data(), b.data(), count, y); },
        [&](float* y) { ops().gelu(a.data(), count, y); },
        [&](float* y) { ops().gelu_tanh_mul(a.data(), b.data(), count, y); },
        [&](float* y) { ops().add(a.data(), b.data(), count, y); },
        [&](float* y) { ops().add_scaled(a.data(), 2, count, y); }};
    for (const auto& write : writers) {
      std::vector<float> y(count + 16, 5.0f);
      write(y.data());
      for (int i = count; i < count + 16; ++i) ASSERT_EQ(y[i], 5.0f) << count;
    }
  }
}

TEST_P(OpsTest, HalfConversionsAreExactOrNearestEven) {
  // Every half that is not a NaN survives the round trip.
  std::vector<uint16_t> halves, back;
  for (uint32_t h = 0; h < 0x10000; ++h) {
    if ((h & 0x7FFF) <= 0x7C00) halves.push_back(static_cast<uint16_t>(h));
  }
  std::vector<float> floats(halves.size());
  back.resize(halves.size());
  ops().half_to_float(halves.data(), static_cast<int64_t>(halves.size()), floats.data());
  ops().float_to_half(floats.data(), static_cast<int64_t>(floats.size()), back.data());
  EXPECT_EQ(back, halves);
  EXPECT_EQ(floats[1], 0x1p-24f);  // smallest subnormal
  EXPECT_EQ(floats[0x3C00], 1.0f);
  EXPECT_EQ(floats[0x7BFF], 65504.0f);

  const float x[] = {1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 65519.9f, 65520.0f,
                     0x1p-25f,     0x1.8p-25f,       -0.0f,    1e10f};
  const uint16_t want[] = {0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0, 1, 0x8000, 0x7C00};
  uint16_t got[8];
  ops().float_to_half(x, 8, got);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(got[i], want[i]) << x[i];

  const float nan = std::nanf("");
  ops().float_to_half(&nan, 1, got);
  ops().half_to_float(got, 1, floats.data());
  EXPECT_TRUE(std::isnan(floats[0]));
}

TEST_P(OpsTest, RopeTurnsPairs) {
  for (int half : {1, 4, 11, 32, 64}) {
    const std::vector<float> x = Random(2 * half), angles = Random(half, 3);
    std::vector<float> cosines(half), sines(half);
    for (int i = 0; i < half; ++i) {
      cosines[i] = std::cos(angles[i]);
      sines[i] = std::sin(angles[i]);
    }
    std::vector<float> interleaved = x, halves = x;
    ops().rope_interleaved(cosines.data(), sines.data(), half, interleaved.data());
    ops().rope_halves(cosines.data(), sines.data(), half, halves.data());
    for (int i = 0; i < half; ++i) {
      const auto check = [&](float a, float b, float got_a, float got_b) {
        const double slack = 4 * kEpsilon * (std::fabs(a) + std::fabs(b));
        EXPECT_NEAR(got_a, a * double{cosines[i]} - b * double{sines[i]}, slack);
        EXPECT_NEAR(got_b, a * double{sines[i]} + b * double{cosines[i]}, slack);
      };
      check(x[2 * i], x[2 * i + 1], interleaved[2 * i], interleaved[2 * i + 1]);
      check(x[i], x[half + i], halves[i], halves[half + i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, OpsTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.isa; });

TEST(RopeTest, TableFollowsTheFormula) {
  const double frequencies[] = {0.5, 0.03, 0.0002};
  const RopeParams params = {.rotary_dim = 6, .frequencies = frequencies, .magnitude = 1.25};
  const int32_t positions[] = {0, 3, 100000};
  float table[3][2][3];
  RopeTable(params, positions, 3, &table[0][0][0]);
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 3; ++i) {
      const double angle = positions[t] * frequencies[i];
      EXPECT_NEAR(table[t][0][i], 1.25 * std::cos(angle), 1.25e-7);
      EXPECT_NEAR(table[t][1][i], 1.25 * std::sin(angle), 1.25e-7);
    }
  }
}

// Scores depend on the distance of positions only, heads are separate, and what lies beyond
// rotary_dim stays.
TEST(RopeTest, RotatesEveryHeadAndLeavesTheRest) {
  std::mt19937 rng(2);
  const int heads = 3, head_dim = 16, rotary = 12, stride = heads * head_dim + 5;
  const int32_t positions[] = {7, 11, 107, 111};
  for (RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    const std::vector<float> q = RandomFloats(head_dim, &rng), k = RandomFloats(head_dim, &rng);
    std::vector<float> x(4 * stride, 9.0f);
    for (int t = 0; t < 4; ++t) {
      for (int h = 0; h < heads; ++h) {
        const std::vector<float>& from = t % 2 == 0 ? q : k;
        std::copy(from.begin(), from.end(), &x[t * stride + h * head_dim]);
      }
    }
    const double frequencies[] = {1, 0.3, 0.1, 0.03, 0.01, 0.003};
    const RopeParams params = {.rotary_dim = rotary, .frequencies = frequencies};
    std::vector<float> table(4 * rotary);
    RopeTable(params, positions, 4, table.data());
    Rope(pairing, table.data(), rotary, 4, heads, head_dim, stride, x.data());
    for (int h = 0; h < heads; ++h) {
      const float* row = &x[h * head_dim];
      const float near = Dot(row, row + stride, rotary),
                  far = Dot(row + 2 * stride, row + 3 * stride, rotary);
      EXPECT_NEAR(near, far, 1e-4);
      EXPECT_NE(row[0], q[0]);
      for (int d = rotary; d < head_dim; ++d) EXPECT_EQ(row[d], q[d]);
    }
    for (int t = 0; t < 4; ++t) {
      for (int i = heads * head_dim; i < stride; ++i) EXPECT_EQ(x[t * stride + i], 9.0f);
    }
  }
}

}  // namespace
}  // namespace cairn::kernels
