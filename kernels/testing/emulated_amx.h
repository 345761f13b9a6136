// The tile instructions of AMX in plain loops, behind the names of immintrin.h; see
// emulated_avx512.h. One set of registers a thread, as in the processor.
#ifndef CAIRN_KERNELS_TESTING_EMULATED_AMX_H_
#define CAIRN_KERNELS_TESTING_EMULATED_AMX_H_

#include <bit>
#include <cstdint>
#include <cstring>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) EmulatedTileLoadConfig(config)
#define _tile_release() EmulatedTileRelease()
#define _tile_zero(tile) EmulatedTileZero(tile)
#define _tile_loadd(tile, base, stride) EmulatedTileLoad(tile, base, stride)
#define _tile_stored(tile, base, stride) EmulatedTileStore(tile, base, stride)
#define _tile_dpbssd(c, a, b) EmulatedTileDot<int8_t>(c, a, b)
#define _tile_dpbsud(c, a, b) EmulatedTileDot<uint8_t>(c, a, b)
#define _tile_dpbf16ps(c, a, b) EmulatedTileDotBf16(c, a, b)

#define kMatMulAmx kMatMulEmulatedAmx

namespace cairn::kernels {

namespace {

struct EmulatedTile {
  int rows = 0, row_bytes = 0;
  alignas(64) uint8_t data[16][64] = {};
};
thread_local EmulatedTile emulated_tiles[8];

inline void EmulatedTileLoadConfig(const void* config) {
  const auto* bytes = static_cast<const uint8_t*>(config);
  for (int i = 0; i < 8; ++i) {
    emulated_tiles[i] = {};
    uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + 16 + 2 * i, 2);
    emulated_tiles[i].row_bytes = row_bytes;
    emulated_tiles[i].rows = bytes[48 + i];
  }
}
inline void EmulatedTileRelease() {
  for (EmulatedTile& tile : emulated_tiles) tile = {};
}
inline void EmulatedTileZero(int i) {
  std::memset(emulated_tiles[i].data, 0, sizeof(emulated_tiles[i].data));
}
inline void EmulatedTileLoad(int i, const void* base, int64_t stride) {
  EmulatedTile& tile = emulated_tiles[i];
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(tile.data[r], static_cast<const uint8_t*>(base) + r * stride,
                static_cast<size_t>(tile.row_bytes));
  }
}
inline void EmulatedTileStore(int i, void* base, int64_t stride) {
  const EmulatedTile& tile = emulated_tiles[i];
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(static_cast<uint8_t*>(base) + r * stride, tile.data[r],
                static_cast<size_t>(tile.row_bytes));
  }
}

// C[m][n] += sum over k of A[m][k] * B[k / kPack][n][k % kPack], in elements of type TC, TA, TB.
template <typename TC, typename TA, typename TB, int kPack, typename Product>
void EmulatedTileProduct(int c, int a, int b, const Product& product) {
  EmulatedTile &tc = emulated_tiles[c], &ta = emulated_tiles[a], &tb = emulated_tiles[b];
  const int groups = ta.row_bytes / static_cast<int>(sizeof(TA)) / kPack;
  if (groups > tb.rows || tc.rows > ta.rows) __builtin_trap();  // the processor faults
  for (int m = 0; m < tc.rows; ++m) {
    for (int n = 0; n < tc.row_bytes / 4; ++n) {
      TC sum;
      std::memcpy(&sum, tc.data[m] + 4 * n, 4);
      for (int k = 0; k < groups * kPack; ++k) {
        TA x;
        TB y;
        std::memcpy(&x, ta.data[m] + k * sizeof(TA), sizeof(TA));
        std::memcpy(&y, tb.data[k / kPack] + (n * kPack + k % kPack) * sizeof(TB), sizeof(TB));
        sum += product(x, y);
      }
      std::memcpy(tc.data[m] + 4 * n, &sum, 4);
    }
  }
}
template <typename TB>
void EmulatedTileDot(int c, int a, int b) {
  EmulatedTileProduct<int32_t, int8_t, TB, 4>(c, a, b, [](int x, int y) { return x * y; });
}
inline void EmulatedTileDotBf16(int c, int a, int b) {
  EmulatedTileProduct<float, uint16_t, uint16_t, 2>(c, a, b, [](uint32_t x, uint32_t y) {
    return std::bit_cast<float>(x << 16) * std::bit_cast<float>(y << 16);
  });
}

}  // namespace
}  // namespace cairn::kernels

#endif  // CAIRN_KERNELS_TESTING_EMULATED_AMX_H_
