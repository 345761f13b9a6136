// Quantised products with AMX: one instruction multiplies 16 tokens x 64 columns of int8 with 16
// rows of weights, 8 times the rate of AVX-512 VNNI.
//
// Results equal those of AVX-512 to the bit, because the integers are the same: within a block of
// 256 columns of a K type a weight is scale * q - min. The product scale * q has up to 14 bits and
// is split into a signed high and an unsigned low byte, so that two passes over the tiles give the
// exact sum that the vector kernels reach by scaling after each group, and no vector work is left
// inside a block. The sum of min * (sum of x), all integers below 2^24, is exact in BF16 x BF16 ->
// F32, given that the sums of x come in two parts of 8 bits (RoundedInput::split_sums).
//
// The types with one F32 scale for 32 columns have integers of 8 bits as they are; tiles of 32
// columns leave the scaling to the vector units, which then are the limit.
//
// Expanding a K type costs about 12 vector instructions for 64 weights and is done once for up to
// 512 tokens; with few tokens AVX-512 is as fast.
#include "kernels/matmul_kernels.h"
#include "kernels/simd_avx512.h"
#ifdef CAIRN_EMULATE_AVX512
#include "kernels/testing/emulated_amx.h"
#endif

namespace cairn::kernels {
namespace {

#include "kernels/matmul_unpack_avx512.inc"

constexpr int kMaxTileTokens = 512;
// From this many tokens on tiles should be faster, by counting instructions: expanding costs what
// AVX-512 spends on about ten tokens. Not tuned by measurement.
constexpr int64_t kMinTileTokens = 12;

// Tile registers, as macros because the intrinsics paste them into the instruction. Sums of panel p
// are in 2p (low bytes) and 2p + 1 (high).
#define TILE_A 4
#define TILE_B 5
#define TILE_SUMS_A 6
#define TILE_MINS_B 7

// The layout of ldtilecfg's operand.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles of this thread for the length of a scope.
class TileScope {
 public:
  explicit TileScope(const TileConfig& config) {
    // GCC 12 takes the instruction to read 8 bytes only and would drop the other stores.
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
  }
  ~TileScope() { _tile_release(); }
};

TileConfig ConfigOf(int a_bytes) {
  TileConfig config;
  for (int i = 0; i < 4; ++i) {
    config.rows[i] = 16;
    config.row_bytes[i] = 64;
  }
  config.rows[TILE_A] = 16;
  config.row_bytes[TILE_A] = static_cast<uint16_t>(a_bytes);
  config.rows[TILE_B] = static_cast<uint8_t>(a_bytes / 4);
  config.row_bytes[TILE_B] = 64;
  config.rows[TILE_SUMS_A] = 16;
  config.row_bytes[TILE_SUMS_A] = 32;
  config.rows[TILE_MINS_B] = 8;
  config.row_bytes[TILE_MINS_B] = 64;
  return config;
}

// A panel block of a K type as tiles of 64 columns: [column / 4][row][column % 4].
template <DType type, bool is_k = PanelFormat<type>::kIsK>
struct TileBlock {
  alignas(64) uint8_t low[4][16][64];
  alignas(64) uint8_t high[4][16][64];          // signed
  alignas(64) uint16_t mins[8][kPanelRows][2];  // BF16, twice: for both parts of a sum
  float d[kPanelRows];
  float m[kPanelRows];
};

// A panel block of another type: one tile of 32 columns.
template <DType type>
struct TileBlock<type, false> {
  alignas(64) uint8_t q[8][64];  // signed
  float d[kPanelRows];
  float m[kPanelRows];
};

// low and high bytes of (q - offset) * scale, where scale stands in both halves of 32-bit lanes.
template <int kOffset>
inline void SplitProducts(__m512i q, __m512i scale, uint8_t* low, uint8_t* high) {
  const __m512i offset = _mm512_set1_epi16(kOffset), byte = _mm512_set1_epi16(255);
  const __m512i even = _mm512_sub_epi16(_mm512_and_si512(q, byte), offset);
  const __m512i odd = _mm512_sub_epi16(_mm512_srli_epi16(q, 8), offset);
  const __m512i a = _mm512_mullo_epi16(even, scale), b = _mm512_mullo_epi16(odd, scale);
  StoreInts(low, _mm512_or_si512(_mm512_and_si512(a, byte), _mm512_slli_epi16(b, 8)));
  StoreInts(high, _mm512_or_si512(_mm512_srli_epi16(a, 8), _mm512_andnot_si512(byte, b)));
}

template <DType type>
inline void ExpandTiles(const uint8_t* src, TileBlock<type, true>* out) {
  using Format = PanelFormat<type>;
  Store(out->d, _mm512_cvtph_ps(LoadInts256(src)));
  if constexpr (Format::kHasMin) Store(out->m, _mm512_cvtph_ps(LoadInts256(src + 2 * kPanelRows)));
  const __m512i low_half = _mm512_set1_epi32(0xFFFF);
  __m512i scales[Format::kGroups];
#pragma GCC unroll 8
  for (int pair = 0; pair < Format::kGroups / 2; ++pair) {
    const int at = pair * 2 * kPanelRows;
    const __m256i bytes = LoadInts256(src + Format::kScaleOffset + at);
    const __m512i both =
        Format::kHasMin ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
    const __m512i first = _mm512_and_si512(both, low_half), second = _mm512_srli_epi32(both, 16);
    scales[2 * pair] = _mm512_or_si512(first, _mm512_slli_epi32(first, 16));
    scales[2 * pair + 1] = _mm512_or_si512(second, _mm512_slli_epi32(second, 16));
    if constexpr (Format::kHasMin) {
      // An integer below 256 is a BF16 once its F32 is cut to the upper half.
      const __m512i mins = _mm512_cvtepu8_epi16(LoadInts256(src + Format::kMinOffset + at));
      const auto pair_of = [](__m512i ints) {
        const __m512i bits = _mm512_castps_si512(_mm512_cvtepi32_ps(ints));
        return _mm512_or_si512(bits, _mm512_srli_epi32(bits, 16));
      };
      StoreInts(out->mins[2 * pair], pair_of(_mm512_and_si512(mins, low_half)));
      StoreInts(out->mins[2 * pair + 1], pair_of(_mm512_srli_epi32(mins, 16)));
    }
  }
  for (int u = 0; u < Format::kUnits; ++u) {
    alignas(64) uint8_t q[8][64];
    ExpandUnit<Format::kBits>(src + Format::kUnitOffset + u * Format::kUnitBytes, q);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const __m512i scale = scales[Format::kGroups == 16 ? 2 * u + g / 4 : u];
      SplitProducts<Format::kOffset>(LoadInts(q[g]), scale, out->low[u / 2][u % 2 * 8 + g],
                                     out->high[u / 2][u % 2 * 8 + g]);
    }
  }
}

template <DType type>
inline void ExpandTiles(const uint8_t* src, TileBlock<type, false>* out) {
  using Format = PanelFormat<type>;
  Store(out->d, _mm512_cvtph_ps(LoadInts256(src)));
  if constexpr (Format::kHasMin) Store(out->m, _mm512_cvtph_ps(LoadInts256(src + 2 * kPanelRows)));
  ExpandUnit<Format::kBits>(src + Format::kUnitOffset, out->q);
  if constexpr (Format::kOffset != 0) {
#pragma GCC unroll 8
    for (uint8_t(&q)[64] : out->q) {
      StoreInts(q, _mm512_sub_epi8(LoadInts(q), _mm512_set1_epi8(Format::kOffset)));
    }
  }
}

// Sums of a K type's block for 16 tokens, as the tiles store them: [token][row].
struct alignas(64) Sums {
  int32_t low[kTokenStep][kPanelRows];
  int32_t high[kTokenStep][kPanelRows];
  float mins[kTokenStep][kPanelRows];
};

template <DType type, int kPanels>
inline void DotTiles(const TileBlock<type>* const* blocks, const int8_t* x, int64_t cols,
                     const uint16_t* split_sums, Sums* sums) {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kPanels == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    _tile_loadd(TILE_A, x + 64 * k, cols);
    _tile_loadd(TILE_B, blocks[0]->low[k], 64);
    _tile_dpbsud(0, TILE_A, TILE_B);
    _tile_loadd(TILE_B, blocks[0]->high[k], 64);
    _tile_dpbssd(1, TILE_A, TILE_B);
    if constexpr (kPanels == 2) {
      _tile_loadd(TILE_B, blocks[1]->low[k], 64);
      _tile_dpbsud(2, TILE_A, TILE_B);
      _tile_loadd(TILE_B, blocks[1]->high[k], 64);
      _tile_dpbssd(3, TILE_A, TILE_B);
    }
  }
  _tile_stored(0, sums[0].low, 64);
  _tile_stored(1, sums[0].high, 64);
  if constexpr (kPanels == 2) {
    _tile_stored(2, sums[1].low, 64);
    _tile_stored(3, sums[1].high, 64);
  }
  if constexpr (PanelFormat<type>::kHasMin) {
    _tile_loadd(TILE_SUMS_A, split_sums, cols / 16 * 2);
    _tile_zero(0);
    _tile_loadd(TILE_MINS_B, blocks[0]->mins, 64);
    _tile_dpbf16ps(0, TILE_SUMS_A, TILE_MINS_B);
    _tile_stored(0, sums[0].mins, 64);
    if constexpr (kPanels == 2) {
      _tile_zero(1);
      _tile_loadd(TILE_MINS_B, blocks[1]->mins, 64);
      _tile_dpbf16ps(1, TILE_SUMS_A, TILE_MINS_B);
      _tile_stored(1, sums[1].mins, 64);
    }
  }
}

// acc[token][row] += the block's part, in the operations of the AVX-512 kernel.
template <DType type>
inline void AddSums(const TileBlock<type>& block, const Sums& sums, const float* dx,
                    int64_t dx_stride, int64_t tokens, float (*acc)[kPanelRows]) {
  const Vf d = Load(block.d), m = PanelFormat<type>::kHasMin ? Load(block.m) : Zero();
  for (int64_t t = 0; t < tokens; ++t) {
    const Vf scale = Set1(dx[t * dx_stride]);
    const __m512i dot =
        _mm512_add_epi32(LoadInts(sums.low[t]), _mm512_slli_epi32(LoadInts(sums.high[t]), 8));
    Vf v = Fma(Mul(d, scale), _mm512_cvtepi32_ps(dot), Load(acc[t]));
    if constexpr (PanelFormat<type>::kHasMin) v = Fnma(Mul(m, scale), Load(sums.mins[t]), v);
    Store(acc[t], v);
  }
}

// One step of the expanded columns for 16 tokens, of which `valid` count, and all panels: acc of
// panel i is at acc[i]. Returns the number of blocks done.
template <DType type, int kPanels, int kChunk>
inline int64_t AddBlocks(const TileBlock<type, true> (*expanded)[kChunk], int64_t b, int64_t,
                         const MatMulPart& p, int64_t first, int64_t token, int64_t valid,
                         float (*const* acc)[kPanelRows]) {
  const int64_t blocks = p.w.cols / 256, index = first + b;
  const TileBlock<type>* at[kPanels];
  for (int i = 0; i < kPanels; ++i) at[i] = &expanded[i][b];
  Sums sums[kPanels];
  DotTiles<type, kPanels>(at, p.in.q.q + token * p.w.cols + index * 256, p.w.cols,
                          p.in.q.split_sums + token * p.w.cols / 16 + index * 16, sums);
  for (int i = 0; i < kPanels; ++i) {
    AddSums<type>(*at[i], sums[i], p.in.q.d + token * blocks + index, blocks, valid, acc[i]);
  }
  return 1;
}

// The same for the other types, two blocks at a time (so that four tiles are in work), or the last.
template <DType type, int kPanels, int kChunk>
inline int64_t AddBlocks(const TileBlock<type, false> (*expanded)[kChunk], int64_t b, int64_t count,
                         const MatMulPart& p, int64_t first, int64_t token, int64_t valid,
                         float (*const* acc)[kPanelRows]) {
  const int64_t blocks = p.w.cols / 32, index = first + b;
  const int num = b + 2 <= count ? 2 : 1;
  alignas(64) int32_t sums[kPanels][2][kTokenStep][kPanelRows];
  const int8_t* x = p.in.q.q + token * p.w.cols + index * 32;
  _tile_loadd(TILE_A, x, p.w.cols);
  _tile_zero(0);
  _tile_loadd(TILE_B, expanded[0][b].q, 64);
  _tile_dpbssd(0, TILE_A, TILE_B);
  if constexpr (kPanels == 2) {
    _tile_zero(2);
    _tile_loadd(TILE_B, expanded[1][b].q, 64);
    _tile_dpbssd(2, TILE_A, TILE_B);
  }
  if (num == 2) {
    _tile_loadd(TILE_A, x + 32, p.w.cols);
    _tile_zero(1);
    _tile_loadd(TILE_B, expanded[0][b + 1].q, 64);
    _tile_dpbssd(1, TILE_A, TILE_B);
    if constexpr (kPanels == 2) {
      _tile_zero(3);
      _tile_loadd(TILE_B, expanded[1][b + 1].q, 64);
      _tile_dpbssd(3, TILE_A, TILE_B);
    }
  }
  _tile_stored(0, sums[0][0], 64);
  if constexpr (kPanels == 2) _tile_stored(2, sums[1][0], 64);
  if (num == 2) {
    _tile_stored(1, sums[0][1], 64);
    if constexpr (kPanels == 2) _tile_stored(3, sums[1][1], 64);
  }
  const float* dx = p.in.q.d + token * blocks + index;
  const int32_t* sx = p.in.q.sums + token * blocks + index;
  for (int i = 0; i < kPanels; ++i) {
    for (int64_t t = 0; t < valid; ++t) {
      Vf v = Load(acc[i][t]);
      for (int j = 0; j < num; ++j) {
        const TileBlock<type>& block = expanded[i][b + j];
        const float scale = dx[t * blocks + j];
        v = Fma(Mul(Load(block.d), Set1(scale)), _mm512_cvtepi32_ps(LoadInts(sums[i][j][t])), v);
        if constexpr (PanelFormat<type>::kHasMin) {
          v = Fma(Load(block.m), Set1(static_cast<float>(sx[t * blocks + j]) * scale), v);
        }
      }
      Store(acc[i][t], v);
    }
  }
  return num;
}

// The next step's rows of x, kBytes of each, come from the second-level cache: asked for one step
// ahead, they arrive during the products of this one.
template <int kBytes>
inline void PrefetchRows(const int8_t* x, int64_t stride) {
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTokenStep; ++i) {
    for (int byte = 0; byte < kBytes; byte += 64) __builtin_prefetch(x + i * stride + byte);
  }
}

inline void StorePanel(const MatMulPart& p, int64_t panel, const float (*acc)[kPanelRows]) {
  const int64_t row = panel * kPanelRows, left = p.w.rows - row;
  const int count = left < kPanelRows ? static_cast<int>(left) : kPanelRows;
  const Vf bias = p.bias == nullptr ? Zero() : LoadFirst(p.bias + row, count);
  for (int64_t t = 0; t < p.token_end - p.token_begin; ++t) {
    StoreFirst(p.y + (p.token_begin + t) * p.y_stride + row, count, Add(Load(acc[t]), bias));
  }
}

// kPanels panels, all tokens of the part. 512 columns of two panels, expanded, are 33 KiB (21 of
// the types without groups): they stay in the first-level cache while the tokens pass by, read from
// the second.
template <DType type, int kPanels>
void MultiplyPanels(const MatMulPart& p, int64_t panel) {
  using Format = PanelFormat<type>;
  constexpr int kChunk = 512 / Format::kBlockCols;
  TileBlock<type> expanded[kPanels][kChunk];
  alignas(64) float acc[kPanels][kMaxTileTokens][kPanelRows];
  const int64_t tokens = p.token_end - p.token_begin;
  const int64_t blocks = p.w.cols / Format::kBlockCols;
  const uint8_t* src[kPanels];
  for (int i = 0; i < kPanels; ++i) {
    src[i] = p.w.data + (panel + i) * blocks * Format::kBlockBytes;
    __builtin_memset(acc[i], 0, static_cast<size_t>(tokens) * sizeof(acc[i][0]));
  }
  for (int64_t first = 0; first < blocks; first += kChunk) {
    const int64_t count = blocks - first < kChunk ? blocks - first : kChunk;
    for (int i = 0; i < kPanels; ++i) {
      for (int64_t b = 0; b < count; ++b, src[i] += Format::kBlockBytes) {
        ExpandTiles<type>(src[i], &expanded[i][b]);
      }
    }
    for (int64_t t = 0; t < tokens; t += kTokenStep) {
      const int64_t valid = tokens - t < kTokenStep ? tokens - t : kTokenStep;
      float(*at[kPanels])[kPanelRows];
      for (int i = 0; i < kPanels; ++i) at[i] = acc[i] + t;
      if (first + count == blocks) {  // results of 16 tokens lie in as many pages
        for (int64_t i = t; i < t + valid; ++i) {
          __builtin_prefetch(p.y + (p.token_begin + i) * p.y_stride + panel * kPanelRows, 1);
          __builtin_prefetch(p.y + (p.token_begin + i) * p.y_stride + panel * kPanelRows + 16, 1);
        }
      }
      const int8_t* x = p.in.q.q + (p.token_begin + t) * p.w.cols + first * Format::kBlockCols;
      for (int64_t b = 0; b < count;) {
        const int64_t step = Format::kIsK ? 1 : 2;
        const int8_t* next =
            b + step < count ? x + (b + step) * Format::kBlockCols : x + kTokenStep * p.w.cols;
        PrefetchRows<Format::kIsK ? 256 : 64>(next, p.w.cols);
        b += AddBlocks<type, kPanels, kChunk>(expanded, b, count, p, first, p.token_begin + t,
                                              valid, at);
      }
    }
  }
  for (int i = 0; i < kPanels; ++i) StorePanel(p, panel + i, acc[i]);
}

template <DType type>
void MultiplyTiles(const MatMulPart& p) {
  const TileScope scope(ConfigOf(PanelFormat<type>::kIsK ? 64 : 32));
  int64_t panel = p.panel_begin;
  for (; panel + 2 <= p.panel_end; panel += 2) MultiplyPanels<type, 2>(p, panel);
  if (panel < p.panel_end) MultiplyPanels<type, 1>(p, panel);
}

// Minima of groups of 16 would need another form of the tiles' sums: left to the vectors, as many
// tokens at a time as they take.
void MultiplyVectors(const MatMulPart& part) {
  MatMulPart piece = part;
  for (int64_t t = part.token_begin; t < part.token_end; t += kMaxTokens) {
    piece.token_begin = t;
    piece.token_end = part.token_end - t < kMaxTokens ? part.token_end : t + kMaxTokens;
    kMatMulAvx512.multiply(piece);
  }
}

void Multiply(const MatMulPart& part) {
  if (part.token_end - part.token_begin < kMinTileTokens) return kMatMulAvx512.multiply(part);
  switch (part.w.type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return kMatMulAvx512.multiply(part);
    case DType::kQ4_0:
      return MultiplyTiles<DType::kQ4_0>(part);
    case DType::kQ4_1:
      return MultiplyTiles<DType::kQ4_1>(part);
    case DType::kQ5_0:
      return MultiplyTiles<DType::kQ5_0>(part);
    case DType::kQ5_1:
      return MultiplyTiles<DType::kQ5_1>(part);
    case DType::kQ8_0:
      return MultiplyTiles<DType::kQ8_0>(part);
    case DType::kQ4_K:
      return MultiplyTiles<DType::kQ4_K>(part);
    case DType::kQ5_K:
      return MultiplyTiles<DType::kQ5_K>(part);
    case DType::kQ6_K:
      return MultiplyTiles<DType::kQ6_K>(part);
    case DType::kQ2_K:
      return MultiplyVectors(part);
    case DType::kQ3_K:
    case DType::kIQ4_NL:
    case DType::kMXFP4:
      break;  // packed as another type
  }
}

void SplitSums(const int16_t* sums32, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int high = (sums32[i] + 16) >> 5 << 5;
    const float parts[2] = {static_cast<float>(high), static_cast<float>(sums32[i] - high)};
    uint32_t bits[2];
    __builtin_memcpy(bits, parts, sizeof(bits));
    out[2 * i] = static_cast<uint16_t>(bits[0] >> 16);
    out[2 * i + 1] = static_cast<uint16_t>(bits[1] >> 16);
  }
}

}  // namespace

const MatMulKernels kMatMulAmx = {RoundRowAvx2, RoundRowKAvx2, Multiply, kMaxTileTokens, SplitSums};

}  // namespace cairn::kernels
