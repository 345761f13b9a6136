// Turns ggml's blocks into panels (layout in matmul_kernels.h).
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "common/check.h"
#include "common/checked_math.h"
#include "common/strings.h"
#include "kernels/half.h"
#include "kernels/k_scales.h"
#include "kernels/matmul.h"
#include "kernels/matmul_kernels.h"

namespace cairn::kernels {
namespace {

// Integers of one ggml block, before the offset is subtracted, and its scales.
struct PlainBlock {
  alignas(8) uint8_t q[256];
  uint16_t d = 0, m = 0;
  uint8_t scales[16] = {};
  uint8_t mins[16] = {};
};

void LoadNibbles(const uint8_t* nibbles, uint8_t* q) {
  for (int i = 0; i < 16; ++i) q[i] = nibbles[i] & 15;
  for (int i = 0; i < 16; ++i) q[16 + i] = nibbles[i] >> 4;
}

// `offset` is what the panel's type subtracts from its integers.
void LoadQ3_K(const uint8_t* b, int offset, PlainBlock* out) {
  for (int i = 0; i < 256; ++i) out->q[i] = static_cast<uint8_t>(Q3Weight(b, i) - 4 + offset);
  for (int j = 0; j < 16; ++j) out->scales[j] = static_cast<uint8_t>(Q3Scale(b, j));
  std::memcpy(&out->d, b + 108, 2);
}

void LoadQ2_K(const uint8_t* b, PlainBlock* out) {
  for (int i = 0; i < 256; ++i) out->q[i] = static_cast<uint8_t>(Pair(b + 16, i));
  for (int j = 0; j < 16; ++j) {
    out->scales[j] = b[j] & 15;
    out->mins[j] = b[j] >> 4;
  }
  std::memcpy(&out->d, b + 80, 2);
  std::memcpy(&out->m, b + 82, 2);
}

void LoadIQ4_NL(const uint8_t* b, PlainBlock* out) {
  std::memcpy(&out->d, b, 2);
  for (int i = 0; i < 32; ++i) {
    out->q[i] = static_cast<uint8_t>(kIQ4_NLValues[Nibble(b + 2, i)]);
  }
}

// Powers of two that a positive F16 can be, subnormals too.
constexpr int kMinHalfExponent = -24, kMaxHalfExponent = 15;
// int8 has room for 2^3 times the largest value, 12.
constexpr int kMXFP4Room = 3;

bool IsZeroMXFP4(const uint8_t* b) {
  return std::all_of(b + 1, b + 17, [](uint8_t codes) { return (codes & 0x77) == 0; });
}

bool FitsQ8_0(const uint8_t* b) {
  const int exponent = b[0] - kMXFP4Bias;
  return IsZeroMXFP4(b) ||
         (exponent >= kMinHalfExponent && exponent <= kMaxHalfExponent + kMXFP4Room);
}

// REQUIRES: FitsQ8_0(b).
void LoadMXFP4(const uint8_t* b, PlainBlock* out) {
  const int exponent = b[0] - kMXFP4Bias;
  const int shift = std::max(0, exponent - kMaxHalfExponent);
  out->d = IsZeroMXFP4(b) ? uint16_t{0} : FloatToHalfBits(std::ldexp(1.0f, exponent - shift));
  for (int i = 0; i < 32; ++i) {
    const int value = kMXFP4Values[Nibble(b + 1, i)];
    out->q[i] = static_cast<uint8_t>(out->d == 0 ? 0 : value * (1 << shift));
  }
}

template <DType type>
void LoadBlock(const uint8_t* b, PlainBlock* out) {
  using Format = PanelFormat<type>;
  if constexpr (type == DType::kQ3_K) return LoadQ3_K(b, PanelFormat<DType::kQ6_K>::kOffset, out);
  if constexpr (type == DType::kQ2_K) return LoadQ2_K(b, out);
  if constexpr (type == DType::kIQ4_NL) return LoadIQ4_NL(b, out);
  if constexpr (type == DType::kMXFP4) return LoadMXFP4(b, out);
  if constexpr (type == DType::kQ6_K) {
    for (int i = 0; i < 256; ++i) out->q[i] = static_cast<uint8_t>(Q6Weight(b, i));
    std::memcpy(out->scales, b + 192, 16);
    std::memcpy(&out->d, b + 208, 2);
    return;
  }
  std::memcpy(&out->d, b, 2);
  if constexpr (Format::kHasMin) std::memcpy(&out->m, b + 2, 2);
  b += Format::kHasMin ? 4 : 2;
  if constexpr (type == DType::kQ8_0) {
    std::memcpy(out->q, b, 32);
  } else if constexpr (!Format::kIsK) {
    uint32_t high = 0;
    if constexpr (Format::kBits == 5) {
      std::memcpy(&high, b, 4);
      b += 4;
    }
    LoadNibbles(b, out->q);
    for (int i = 0; i < 32; ++i) out->q[i] |= (high >> i & 1) << 4;
  } else {
    for (int j = 0; j < 8; ++j) {
      const KScale s = GetKScale(b, j);
      out->scales[j] = s.scale;
      out->mins[j] = s.min;
    }
    const uint8_t* high = b + 12;
    const uint8_t* nibbles = Format::kBits == 5 ? high + 32 : high;
    for (int j = 0; j < 8; ++j) {
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = nibbles[j / 2 * 32 + i];
        uint8_t q = j % 2 == 0 ? byte & 15 : byte >> 4;
        if constexpr (Format::kBits == 5) q |= (high[i] >> j & 1) << 4;
        out->q[j * 32 + i] = q;
      }
    }
  }
}

// Four columns of the row are one 32-bit word; words of a row stand kPanelRows words apart.
template <int kBits>
void StoreUnit(const uint8_t* q, uint8_t* unit, int row) {
  const auto load = [q](int group) {
    uint32_t word;
    std::memcpy(&word, q + 4 * group, 4);
    return word;
  };
  const auto store = [&unit, row](int index, uint32_t word) {
    std::memcpy(unit + (index * kPanelRows + row) * 4, &word, 4);
  };
  if constexpr (kBits == 8) {
    for (int g = 0; g < 8; ++g) store(g, load(g));
    return;
  }
  for (int c = 0; c < 4; ++c) {
    store(c, (load(c) & 0x0F0F0F0Fu) | (load(c + 4) & 0x0F0F0F0Fu) << 4);
  }
  if constexpr (kBits == 5) {
    uint32_t bits = 0;
    for (int g = 0; g < 8; ++g) bits |= (load(g) >> 4 & 0x01010101u) << g;
    store(4, bits);
  }
  if constexpr (kBits == 6) {
    for (int h = 0; h < 2; ++h) {
      uint32_t pairs = 0;
      for (int f = 0; f < 4; ++f) pairs |= (load(4 * h + f) >> 4 & 0x03030303u) << 2 * f;
      store(4 + h, pairs);
    }
  }
}

template <DType type>
void StoreBlock(const PlainBlock& block, uint8_t* out, int row) {
  using Format = PanelFormat<type>;
  std::memcpy(out + row * 2, &block.d, 2);
  if constexpr (Format::kHasMin) std::memcpy(out + (kPanelRows + row) * 2, &block.m, 2);
  for (int s = 0; s < Format::kGroups; ++s) {
    const int at = s / 2 * kPanelRows * 2 + row * 2 + s % 2;
    out[Format::kScaleOffset + at] = block.scales[s];
    if constexpr (Format::kHasMin) out[Format::kMinOffset + at] = block.mins[s];
  }
  for (int u = 0; u < Format::kUnits; ++u) {
    StoreUnit<Format::kBits>(block.q + u * kUnitCols,
                             out + Format::kUnitOffset + u * Format::kUnitBytes, row);
  }
}

// Rows of `type` as a panel of `packed`, which has blocks of as many columns.
template <DType type, DType packed>
void PackPanel(const uint8_t* rows, int num_rows, int64_t cols, uint8_t* panel) {
  using Format = PanelFormat<packed>;
  const int64_t blocks = cols / Format::kBlockCols;
  const int64_t row_bytes = blocks * Info(type).block_bytes;
  if (num_rows < kPanelRows) std::memset(panel, 0, blocks * Format::kBlockBytes);
  PlainBlock block;
  for (int64_t b = 0; b < blocks; ++b) {
    for (int row = 0; row < num_rows; ++row) {
      LoadBlock<type>(rows + row * row_bytes + b * Info(type).block_bytes, &block);
      StoreBlock<packed>(block, panel + b * Format::kBlockBytes, row);
    }
  }
}

struct Packing {
  DType type;  // of the panels
  int block_cols = 0;
  int block_bytes = 0;  // of a panel block
  void (*pack_panel)(const uint8_t*, int, int64_t, uint8_t*) = nullptr;
};

template <DType type, DType packed = type>
constexpr Packing MakePacking() {
  using Format = PanelFormat<packed>;
  return {packed, Format::kBlockCols, Format::kBlockBytes, PackPanel<type, packed>};
}

// Null function for the types that stay a view.
Packing PackingOf(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return {type};
    case DType::kQ4_0:
      return MakePacking<DType::kQ4_0>();
    case DType::kQ4_1:
      return MakePacking<DType::kQ4_1>();
    case DType::kQ5_0:
      return MakePacking<DType::kQ5_0>();
    case DType::kQ5_1:
      return MakePacking<DType::kQ5_1>();
    case DType::kQ8_0:
      return MakePacking<DType::kQ8_0>();
    case DType::kQ4_K:
      return MakePacking<DType::kQ4_K>();
    case DType::kQ5_K:
      return MakePacking<DType::kQ5_K>();
    case DType::kQ6_K:
      return MakePacking<DType::kQ6_K>();
    case DType::kQ2_K:
      return MakePacking<DType::kQ2_K>();
    case DType::kQ3_K:
      return MakePacking<DType::kQ3_K, DType::kQ6_K>();
    case DType::kIQ4_NL:
      return MakePacking<DType::kIQ4_NL, DType::kQ8_0>();
    case DType::kMXFP4:
      return MakePacking<DType::kMXFP4, DType::kQ8_0>();
  }
  CAIRN_CHECK(false && "unknown dtype");
}

uint8_t* AllocateWeights(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;  // fewer TLB misses while weights stream by
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p != nullptr && alignment == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(p);
}

}  // namespace

void PackedMatrix::Free::operator()(uint8_t* p) const { std::free(p); }

size_t PackedBytes(DType type, int64_t rows, int64_t cols) {
  const Packing packing = PackingOf(type);
  if (packing.pack_panel == nullptr) return 0;
  return static_cast<size_t>((rows + kPanelRows - 1) / kPanelRows * (cols / packing.block_cols)) *
         packing.block_bytes;
}

absl::StatusOr<PackedMatrix> PackedMatrix::Pack(DType type, const uint8_t* data, size_t size,
                                                int64_t rows, int64_t cols, WorkerPool& pool) {
  const DTypeInfo& info = Info(type);
  const auto invalid = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        StrCat(info.name, " matrix of ", rows, " x ", cols, " in ", size, " bytes: ", what));
  };
  if (rows <= 0 || cols <= 0) return invalid("the shape is not positive");
  if (cols % info.block_elements != 0) {
    return invalid(StrCat("columns are not a multiple of ", info.block_elements));
  }
  // Panel blocks are at most 64 rows' worth of bytes, so a product that fits here with room to
  // spare cannot overflow.
  int64_t needed = 0;
  if (!CheckedMul(rows, cols / info.block_elements, &needed) ||
      !CheckedMul(needed, int64_t{info.block_bytes}, &needed) || needed > INT64_MAX / 64) {
    return invalid("the size overflows");
  }
  if (static_cast<size_t>(needed) > size) return invalid(StrCat(needed, " bytes are needed"));

  if (type == DType::kMXFP4) {
    for (int64_t at = 0; at < needed; at += info.block_bytes) {
      if (FitsQ8_0(data + at)) continue;
      return absl::UnimplementedError(StrCat("MXFP4 block ", at / info.block_bytes, " has scale 2^",
                                             data[at] - 127, ", outside 2^-23 .. 2^19"));
    }
  }

  const Packing packing = PackingOf(type);
  PackedMatrix matrix;
  matrix.type_ = packing.type;
  matrix.rows_ = rows;
  matrix.cols_ = cols;
  if (packing.pack_panel == nullptr) {
    matrix.data_ = data;
    return matrix;
  }
  matrix.owned_bytes_ = PackedBytes(type, rows, cols);
  matrix.owned_.reset(AllocateWeights(matrix.owned_bytes_));
  if (matrix.owned_ == nullptr) {
    return absl::ResourceExhaustedError(
        StrCat("no memory for ", matrix.owned_bytes_, " bytes of weights"));
  }
  matrix.data_ = matrix.owned_.get();
  const int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  const int64_t panel_bytes = cols / packing.block_cols * packing.block_bytes;
  const int64_t row_bytes = cols / info.block_elements * info.block_bytes;
  pool.ParallelFor(panels, [&](int64_t panel) {
    const int64_t row = panel * kPanelRows;
    packing.pack_panel(data + row * row_bytes,
                       static_cast<int>(std::min<int64_t>(kPanelRows, rows - row)), cols,
                       matrix.owned_.get() + panel * panel_bytes);
  });
  return matrix;
}

}  // namespace cairn::kernels
