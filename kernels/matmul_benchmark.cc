// Speed of one matrix product, per weight type and instruction set.
//
//   GB/s      n = 1 (decode): bytes of weights in ggml's layout over time; the matrix (at least 100
//   MB) does not fit any cache GFLOP/s   n = 512 (prefill): 2 * n * rows * cols over time, 1536 x
//   8960
//
// Weights are random and seeded. Before timing, some outputs are checked against dequantised
// weights in double. Run: matmul_benchmark [--benchmark_filter=Q4_K]; threads:
// CAIRN_BENCHMARK_THREADS (default 2).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/matmul_dispatch.h"
#include "kernels/testing/isas.h"
#include "kernels/testing/random_weights.h"

namespace cairn::kernels {
namespace {

int NumThreads() {
  const char* value = std::getenv("CAIRN_BENCHMARK_THREADS");
  return value == nullptr ? 2 : std::atoi(value);
}

// Relative error of int8 rounding of x is about 1 / 254 / sqrt(3) of the largest value a block; a
// wrong kernel is off by the whole result. 5 % of the norms' product over sqrt(cols) separates the
// two.
bool LooksRight(DType type, const std::vector<uint8_t>& bytes, int64_t rows, int64_t cols,
                const std::vector<float>& x, int64_t n, const std::vector<float>& y) {
  const int64_t row_bytes = cols / Info(type).block_elements * Info(type).block_bytes;
  std::vector<float> w(cols);
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t r = i * 7919 % rows, t = i * 31 % n;
    DequantizeRow(type, bytes.data() + r * row_bytes, cols, w.data());
    double sum = 0, ww = 0, xx = 0;
    for (int64_t c = 0; c < cols; ++c) {
      sum += double{w[c]} * x[t * cols + c];
      ww += double{w[c]} * w[c];
      xx += double{x[t * cols + c]} * x[t * cols + c];
    }
    if (!(std::fabs(y[t * rows + r] - sum) <=
          0.05 * std::sqrt(ww * xx / static_cast<double>(cols)) * 4)) {
      return false;
    }
  }
  return true;
}

void BM_MatMul(benchmark::State& state, Isa isa, DType type, int64_t rows, int64_t cols,
               int64_t n) {
  static WorkerPool pool(NumThreads());
  std::mt19937 rng(1);
  // A few hundred random rows, repeated: making all of them would take longer than the measurement.
  const int64_t distinct = std::min<int64_t>(rows, 256);
  const std::vector<uint8_t> some = RandomWeights(type, distinct, cols, &rng);
  std::vector<uint8_t> bytes;
  while (static_cast<int64_t>(bytes.size()) < static_cast<int64_t>(some.size()) / distinct * rows) {
    bytes.insert(bytes.end(), some.begin(), some.end());
  }
  const PackedMatrix w = *PackedMatrix::Pack(type, bytes.data(), bytes.size(), rows, cols, pool);
  const std::vector<float> x = RandomFloats(n * cols, &rng);
  std::vector<float> y(n * rows);
  const MatMulOutput out = {&w, nullptr, y.data(), rows};
  const auto run = [&] {
    MatMulGroupWith(MatMulKernelsOf(isa), {x.data(), n, cols}, {&out, 1}, pool);
  };
  run();
  if (!LooksRight(type, bytes, rows, cols, x, n, y)) {
    state.SkipWithError("wrong result");
    return;
  }
  for (auto _ : state) run();
  const double iterations = static_cast<double>(state.iterations());
  if (n == 1) {
    state.counters["GB/s"] = benchmark::Counter(
        static_cast<double>(rows * cols / Info(type).block_elements * Info(type).block_bytes) *
            iterations / 1e9,
        benchmark::Counter::kIsRate);
  } else {
    state.counters["GFLOP/s"] = benchmark::Counter(
        2.0 * static_cast<double>(n * rows * cols) * iterations / 1e9, benchmark::Counter::kIsRate);
  }
}

void RegisterAll() {
  for (Isa isa : AvailableIsas()) {
    for (DType type : kAllTypes) {
      const std::string name = std::string(Info(type).name) + "/" + std::string(IsaName(isa));
      const int64_t decode_rows = 256 * (type == DType::kF32 ? 64 : 512);
      if (isa != Isa::kScalar) {
        benchmark::RegisterBenchmark(("decode/" + name).c_str(), BM_MatMul, isa, type, decode_rows,
                                     1536, 1)
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
      const int64_t n = isa == Isa::kScalar ? 4 : 512;
      benchmark::RegisterBenchmark(("prefill/" + name).c_str(), BM_MatMul, isa, type, 8960, 1536, n)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace cairn::kernels

int main(int argc, char** argv) {
  cairn::kernels::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
