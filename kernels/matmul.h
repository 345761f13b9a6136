// Products of float activations with quantised or float weights: y = x * w^T + bias.
//
// Shapes are row-major: x [n, cols], w [rows, cols] (cols contiguous, as in a GGUF file), y [n,
// rows].
//
// Numbers. F32, F16 and BF16 weights are multiplied in F32. For the others, x is first rounded to
// int8 with one F32 scale (largest magnitude / 127, ties to even) per 32 values, or per 256 for the
// K types, and products are summed exactly in integers within such a block, then in F32 over the
// blocks in ascending order. The result of a row of x depends neither on n, nor on the other rows,
// nor on the number of threads: within one instruction set it is equal to the bit. matmul_test.cc
// holds the definition. Values of x must be finite.
//
// Threads: PackedMatrix is immutable after Pack. MatMul may be called from several threads.
#ifndef CAIRN_KERNELS_MATMUL_H_
#define CAIRN_KERNELS_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/worker_pool.h"
#include "kernels/dtype.h"

namespace cairn::kernels {

// Weights in the order in which the kernels read them.
//
// Quantised types are copied, 16 rows interleaved; the source may be unmapped afterwards. F32, F16
// and BF16 are a view: the source must outlive the matrix.
//
// A packed weight takes the bits that it takes in the file, but for four types, which are
// transcoded exactly into layouts that the kernels have:
//
//   file             packed as                           bits a weight, file -> packed
//   Q2_K             nibbles, 16 scales and minima       2.63 -> 5.13
//   Q3_K             Q6_K                                3.44 -> 6.56
//   IQ4_NL           Q8_0: the table's values are int8   4.50 -> 8.50
//   MXFP4            Q8_0: twice the E2M1 values         4.25 -> 8.50
class PackedMatrix {
 public:
  PackedMatrix() = default;  // 0 x 0
  PackedMatrix(PackedMatrix&&) = default;
  PackedMatrix& operator=(PackedMatrix&&) = default;

  // `data` holds rows * cols weights in ggml's layout; `size` bytes can be read. INVALID_ARGUMENT
  // when the shape is not positive, cols is not a multiple of the type's block, or size is too
  // small. UNIMPLEMENTED for an MXFP4 block that is not zero and whose scale is outside 2^-23 ..
  // 2^19: Q8_0's F16 scale cannot hold it.
  static absl::StatusOr<PackedMatrix> Pack(DType type, const uint8_t* data, size_t size,
                                           int64_t rows, int64_t cols, WorkerPool& pool);

  // Of the panels: for a transcoded type the one that it is packed as.
  DType type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // Bytes owned (0 for a view).
  size_t memory_bytes() const { return owned_bytes_; }
  // In the layout of matmul_kernels.h.
  const uint8_t* data() const { return data_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  DType type_ = DType::kF32;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  const uint8_t* data_ = nullptr;
  size_t owned_bytes_ = 0;
  std::unique_ptr<uint8_t, Free> owned_;
};

// Bytes that `rows` x `cols` weights occupy once packed (0 for the types that stay a view).
size_t PackedBytes(DType type, int64_t rows, int64_t cols);

// x [n, cols]; rows start `stride` floats apart.
struct MatMulInput {
  const float* x = nullptr;
  int64_t n = 0;
  int64_t stride = 0;
};

// y [n, w->rows()] = x w^T (+ bias); rows start `stride` floats apart.
struct MatMulOutput {
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // [w->rows()], or null
  float* y = nullptr;
  int64_t stride = 0;
};

// Several products with the same x (query, key and value; gate and up): x is rounded once and all
// the work is one parallel loop. REQUIRES: all outputs have the same cols; y overlaps neither x nor
// another y.
void MatMulGroup(const MatMulInput& x, std::span<const MatMulOutput> outputs, WorkerPool& pool);

// One product with dense rows.
void MatMul(const PackedMatrix& w, const float* x, int64_t n, float* y, WorkerPool& pool,
            const float* bias = nullptr);

// dst[0..n) = the first n weights of a row in ggml's layout, of any type. REQUIRES: n is a multiple
// of the type's block.
void DequantizeRow(DType type, const uint8_t* src, int64_t n, float* dst);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_MATMUL_H_
