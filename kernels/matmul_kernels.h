// What the parts of the matrix product share: the packed layout, the rounded input and the table of
// functions that each instruction set fills in. Included by the ISA files, so it holds no inline
// functions.
//
// A panel is 16 rows (missing ones are zero). For quantised types a panel is a run of panel blocks,
// one for every 32 columns, or for every 256 of the K types:
//
//   F16 d[16]                               one a row
//   F16 m[16]                               Q4_1, Q5_1: minimum; Q2_K, Q4_K, Q5_K: scale of minima
//   8-bit scale[s / 2][16][2]               K types: group s of row r at [s / 2][r][s % 2]; 8
//   groups of 32, or 16
//                                           of 16 in Q2_K and Q6_K (signed there)
//   8-bit min[s / 2][16][2]                 Q2_K, Q4_K, Q5_K
//   units, one for every 32 columns:
//     4-bit types  nibbles[4][16][4]        low half of [c][r][b]: column 4c + b; high half: column
//     16 + 4c + b 5-bit types  the same, then bits[16][4]      bit g of [r][b]: bit 4 of column 4g
//     + b 6-bit types  the same, then pairs[2][16][4]  bits 2f, 2f + 1 of [h][r][b]: bits 4, 5 of
//     column 16h + 4f + b 8-bit type   bytes[8][16][4]          [g][r][b]: column 4g + b, signed
//
// Q2_K is one of the 4-bit types here. The types that matmul.h names as transcoded have no panels
// of their own.
//
// So one 32-bit lane of a vector holds four columns of one row, which is what the byte dot product
// instructions add up, and sixteen rows fill one 512-bit register or two 256-bit ones.
#ifndef CAIRN_KERNELS_MATMUL_KERNELS_H_
#define CAIRN_KERNELS_MATMUL_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu_isa.h"
#include "kernels/dtype.h"

namespace cairn::kernels {

inline constexpr int kPanelRows = 16;
inline constexpr int kUnitCols = 32;

// Constants of a quantised type's panel layout.
template <DType type>
struct PanelFormat {
  static constexpr bool kIsK =
      type == DType::kQ2_K || type == DType::kQ4_K || type == DType::kQ5_K || type == DType::kQ6_K;
  static constexpr int kBits =
      type == DType::kQ8_0                                                   ? 8
      : type == DType::kQ6_K                                                 ? 6
      : type == DType::kQ5_0 || type == DType::kQ5_1 || type == DType::kQ5_K ? 5
                                                                             : 4;
  static constexpr bool kHasMin = type == DType::kQ4_1 || type == DType::kQ5_1 ||
                                  type == DType::kQ2_K || type == DType::kQ4_K ||
                                  type == DType::kQ5_K;
  // Subtracted from the stored integer.
  static constexpr int kOffset = type == DType::kQ4_0   ? 8
                                 : type == DType::kQ5_0 ? 16
                                 : type == DType::kQ6_K ? 32
                                                        : 0;
  static constexpr int kBlockCols = kIsK ? 256 : 32;
  static constexpr int kUnits = kBlockCols / kUnitCols;
  static constexpr int kGroups =  // with 8-bit scales
      !kIsK                                          ? 0
      : type == DType::kQ2_K || type == DType::kQ6_K ? 16
                                                     : 8;
  static constexpr int kUnitBytes = kPanelRows * kUnitCols * kBits / 8;
  static constexpr int kScaleOffset = kPanelRows * 2 * (kHasMin ? 2 : 1);
  static constexpr int kMinOffset = kScaleOffset + kGroups * kPanelRows;
  static constexpr int kUnitOffset = kMinOffset + (kHasMin ? kGroups * kPanelRows : 0);
  static constexpr int kBlockBytes = kUnitOffset + kUnits * kUnitBytes;
};

// A matrix as the kernels see it. Floats: rows of `type`, dense. Quantised: panels.
struct PackedView {
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;
};

// x rounded to int8: x is about q * d. Only one of the two forms is used by a given type. Rows of q
// and of split_sums can be read up to the next multiple of kTokenStep.
struct RoundedInput {
  const int8_t* q = nullptr;        // [n, cols]
  const float* d = nullptr;         // [n, cols / 32]; K types: [n, cols / 256]
  const int32_t* sums = nullptr;    // [n, cols / 32], sums of q; not for K types
  const int16_t* sums16 = nullptr;  // [n, cols / 16], sums of q; K types
  const int16_t* sums32 = nullptr;  // [n, cols / 32], sums of q; K types
  // [n, cols / 32, 2], BF16: the same sums, each as a multiple of 32 and a rest in [-16, 15]; both
  // are exact. K types, and only where the table has `split_sums`.
  const uint16_t* split_sums = nullptr;
};

struct InputView {
  const float* x = nullptr;  // [n, cols], rows `stride` floats apart; for float types
  int64_t stride = 0;
  RoundedInput q;  // for quantised types
};

// Parts begin at multiples of these.
inline constexpr int kTokenStep = 16;
inline constexpr int kPanelStep = 2;

// A part of a product: panels [panel_begin, panel_end) of w, rows [token_begin, token_end) of x.
struct MatMulPart {
  PackedView w;
  InputView in;
  const float* bias = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t panel_begin = 0, panel_end = 0;
  int64_t token_begin = 0, token_end = 0;
};

struct MatMulKernels {
  // One row: q, d, sums as in RoundedInput.
  void (*round_row)(const float* x, int64_t cols, int8_t* q, float* d, int32_t* sums);
  void (*round_row_k)(const float* x, int64_t cols, int8_t* q, float* d, int16_t* sums16,
                      int16_t* sums32);
  void (*multiply)(const MatMulPart& part);
  int max_tokens;  // of a part; a multiple of kTokenStep
  // RoundedInput::split_sums of `count` sums; null when multiply does not use them.
  void (*split_sums)(const int16_t* sums32, int64_t count, uint16_t* out);
};

// What the vector tables take: their sums of a panel are 8 KiB on the stack.
inline constexpr int kMaxTokens = 128;

// Rounding on its own, for tables that share it.
void RoundRowScalar(const float* x, int64_t cols, int8_t* q, float* d, int32_t* sums);
void RoundRowKScalar(const float* x, int64_t cols, int8_t* q, float* d, int16_t* sums16,
                     int16_t* sums32);
void RoundRowAvx2(const float* x, int64_t cols, int8_t* q, float* d, int32_t* sums);
void RoundRowKAvx2(const float* x, int64_t cols, int8_t* q, float* d, int16_t* sums16,
                   int16_t* sums32);

extern const MatMulKernels kMatMulScalar;
extern const MatMulKernels kMatMulAvx2;
extern const MatMulKernels kMatMulAvx512;
extern const MatMulKernels kMatMulAmx;

const MatMulKernels& MatMulKernelsOf(Isa isa);

}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_MATMUL_KERNELS_H_
