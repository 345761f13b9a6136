#include "kernels/matmul.h"

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/huge_page_allocator.h"
#include "kernels/cpu.h"
#include "kernels/matmul_dispatch.h"

namespace cairn::kernels {
namespace {

enum class Rounding { kNone, kPer32, kPer256 };

Rounding RoundingOf(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return Rounding::kNone;
    case DType::kQ2_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return Rounding::kPer256;
    default:
      return Rounding::kPer32;
  }
}

// Rounded x in buffers that a thread keeps for its next call.
class RoundedBuffers {
 public:
  const RoundedInput& Round(Rounding rounding, const MatMulInput& x, int64_t cols,
                            const MatMulKernels& kernels, WorkerPool& pool) {
    const bool k = rounding == Rounding::kPer256;
    const int64_t blocks = cols / (k ? 256 : 32);
    const bool split = k && kernels.split_sums != nullptr;
    // Whole tiles are read, whatever stands in the rows beyond n.
    const int64_t readable = (x.n + kTokenStep - 1) / kTokenStep * kTokenStep;
    Grow(&q_, readable * cols);
    Grow(&d_, x.n * blocks);
    Grow(k ? &sums16_ : &sums32_, x.n * cols / 16);  // 16-bit words, so 32-bit sums need two each
    if (k) Grow(&sums32_, x.n * cols / 32);
    if (split) Grow(&split_sums_, readable * cols / 16);
    auto* const wide_sums = reinterpret_cast<int32_t*>(sums32_.data());
    const int64_t rows_per_task = std::max<int64_t>(1, kRoundedPerTask / cols);
    pool.ParallelFor((x.n + rows_per_task - 1) / rows_per_task, [&](int64_t task) {
      const int64_t end = std::min(x.n, (task + 1) * rows_per_task);
      for (int64_t i = task * rows_per_task; i < end; ++i) {
        const float* row = x.x + i * x.stride;
        int8_t* q = q_.data() + i * cols;
        float* d = d_.data() + i * blocks;
        if (k) {
          kernels.round_row_k(row, cols, q, d, sums16_.data() + i * cols / 16,
                              sums32_.data() + i * cols / 32);
          if (split) {
            kernels.split_sums(sums32_.data() + i * cols / 32, cols / 32,
                               split_sums_.data() + i * cols / 16);
          }
        } else {
          kernels.round_row(row, cols, q, d, wide_sums + i * cols / 32);
        }
      }
    });
    view_ = {q_.data(),      d_.data(),      k ? nullptr : wide_sums,
             sums16_.data(), sums32_.data(), split_sums_.data()};
    return view_;
  }

 private:
  static constexpr int64_t kRoundedPerTask = 16384;  // a few microseconds

  template <typename T>
  static void Grow(HugeVector<T>* buffer, int64_t size) {
    if (static_cast<int64_t>(buffer->size()) < size) buffer->resize(size);
  }

  HugeVector<int8_t> q_;
  HugeVector<float> d_;
  HugeVector<int16_t> sums16_, sums32_;
  HugeVector<uint16_t> split_sums_;
  RoundedInput view_;
};

// A matrix cut into tasks: `token_blocks` parts for each `panels_per_task` panels.
struct Split {
  int64_t panels = 0;
  int64_t panels_per_task = 0;
  int64_t token_blocks = 0;
  int64_t tokens_per_block = 0;
  int64_t num_tasks = 0;
};

Split MakeSplit(const MatMulKernels& kernels, const PackedMatrix& w, int64_t n, int num_threads) {
  Split split;
  split.panels = (w.rows() + kPanelRows - 1) / kPanelRows;
  split.token_blocks = (n + kernels.max_tokens - 1) / kernels.max_tokens;
  // Near-equal blocks of whole steps, so that only the last tile of the last block is partial.
  const int64_t step = split.token_blocks * kTokenStep;
  split.tokens_per_block = (n + step - 1) / step * kTokenStep;
  split.token_blocks = (n + split.tokens_per_block - 1) / split.tokens_per_block;
  // A task should take some tens of microseconds: enough to hide its claim, little enough that
  // threads end together.
  constexpr int64_t kWeightsPerTask = 128 * 1024;  // times a few tokens
  const int64_t tokens = std::min(split.tokens_per_block, n);
  const int64_t wanted =
      kWeightsPerTask / (w.cols() * kPanelRows * std::max<int64_t>(1, tokens / 16));
  const int64_t fair = split.panels * split.token_blocks / (4 * num_threads);
  split.panels_per_task = std::clamp<int64_t>(std::min(wanted, fair), 1, split.panels);
  split.panels_per_task = (split.panels_per_task + kPanelStep - 1) / kPanelStep * kPanelStep;
  split.num_tasks =
      (split.panels + split.panels_per_task - 1) / split.panels_per_task * split.token_blocks;
  return split;
}

}  // namespace

const MatMulKernels& MatMulKernelsOf(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return kMatMulAmx;
  if (isa == Isa::kAvx512) return kMatMulAvx512;
  if (isa == Isa::kAvx2) return kMatMulAvx2;
#endif
  return kMatMulScalar;
}

void MatMulGroupWith(const MatMulKernels& kernels, const MatMulInput& x,
                     std::span<const MatMulOutput> outputs, WorkerPool& pool) {
  if (outputs.empty() || x.n == 0) return;
  const int64_t cols = outputs[0].w->cols();
  CAIRN_CHECK(x.n > 0 && x.stride >= cols);

  thread_local RoundedBuffers rounded_32, rounded_256;
  InputView in;
  in.x = x.x;
  in.stride = x.stride;
  std::vector<Split> splits;
  int64_t num_tasks = 0;
  RoundedInput views[3];
  bool done[3] = {};
  for (const MatMulOutput& out : outputs) {
    CAIRN_CHECK(out.w->cols() == cols && out.stride >= out.w->rows());
    const Rounding rounding = RoundingOf(out.w->type());
    const int form = static_cast<int>(rounding);
    if (rounding != Rounding::kNone && !done[form]) {
      RoundedBuffers& buffers = rounding == Rounding::kPer32 ? rounded_32 : rounded_256;
      views[form] = buffers.Round(rounding, x, cols, kernels, pool);
      done[form] = true;
    }
    splits.push_back(MakeSplit(kernels, *out.w, x.n, pool.size()));
    num_tasks += splits.back().num_tasks;
  }

  pool.ParallelFor(num_tasks, [&](int64_t task) {
    size_t i = 0;
    while (task >= splits[i].num_tasks) task -= splits[i++].num_tasks;
    const MatMulOutput& out = outputs[i];
    const Split& split = splits[i];
    MatMulPart part;
    part.w = {out.w->type(), out.w->rows(), cols, out.w->data()};
    part.in = in;
    part.in.q = views[static_cast<int>(RoundingOf(out.w->type()))];
    part.bias = out.bias;
    part.y = out.y;
    part.y_stride = out.stride;
    part.panel_begin = task / split.token_blocks * split.panels_per_task;
    part.panel_end = std::min(part.panel_begin + split.panels_per_task, split.panels);
    part.token_begin = task % split.token_blocks * split.tokens_per_block;
    part.token_end = std::min(part.token_begin + split.tokens_per_block, x.n);
    kernels.multiply(part);
  });
}

void MatMulGroup(const MatMulInput& x, std::span<const MatMulOutput> outputs, WorkerPool& pool) {
  MatMulGroupWith(MatMulKernelsOf(ActiveIsa()), x, outputs, pool);
}

void MatMul(const PackedMatrix& w, const float* x, int64_t n, float* y, WorkerPool& pool,
            const float* bias) {
  const MatMulOutput output = {&w, bias, y, w.rows()};
  MatMulGroup({x, n, w.cols()}, {&output, 1}, pool);
}

}  // namespace cairn::kernels
