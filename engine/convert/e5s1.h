// E5S1: the container of a 4-bit multilingual-e5-small, version 1. Little-endian, in this order:
//
//   header     "E5S1", u32 version, i32 hidden, layers, heads, feed_forward, vocabulary rows,
//   positions, token
//              types, f32 layer norm epsilon, i32 quantisation block length (32)
//   pieces     i32 count, i32 bos, eos, pad, unk, u64 blob length, u32 offsets [count + 1], f32
//   scores [count], blob norm       i32 count, u32 bytes, count x {u32 code point, u8 n, u32
//   replacement [n]}, ascending directory  i32 count, count x {u16 length, name, u8 dtype (0 = F32,
//   1 = Q4_0), u32 elements, u64 offset from
//              the start of the file, u64 bytes}
//   data       64-byte aligned
//
// The blocks are ggml's Q4_0 in size, nibble order and offset.
#ifndef CAIRN_ENGINE_CONVERT_E5S1_H_
#define CAIRN_ENGINE_CONVERT_E5S1_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/convert/bert_gguf.h"

namespace cairn::engine {

struct E5s1File {
  int num_heads = 0;
  float layer_norm_epsilon = 0;
  int num_positions = 0;
  int bos = 0, eos = 0, pad = 0, unk = 0;
  std::vector<std::string> pieces;
  std::vector<float> scores;         // [pieces]
  std::vector<int32_t> norm_from;    // code points, ascending
  std::vector<std::string> norm_to;  // UTF-8, may be empty
  std::vector<BertTensor> tensors;   // with their GGUF names
};

// OUT_OF_RANGE for a short file, INVALID_ARGUMENT for one that contradicts itself.
absl::StatusOr<E5s1File> ParseE5s1(std::span<const uint8_t> bytes);

// Adds the vocabulary (a SentencePiece unigram model) to `writer`.
void AddE5s1Vocabulary(const E5s1File& file, GgufWriter* writer);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_E5S1_H_
