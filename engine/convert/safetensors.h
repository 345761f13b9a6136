// Safetensors: u64 header length, a JSON header {name: {dtype, shape, data_offsets}}, then the
// data. Format: https://github.com/huggingface/safetensors
#ifndef CAIRN_ENGINE_CONVERT_SAFETENSORS_H_
#define CAIRN_ENGINE_CONVERT_SAFETENSORS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace cairn::engine {

struct SafeTensor {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16", "I64", ...
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;  // into the file
};

// Tensors in the order of the header. Sizes are checked against shape and type for the types above
// and the other ones of 1, 2, 4 or 8 bytes; UNIMPLEMENTED for a type that we do not know.
absl::StatusOr<std::vector<SafeTensor>> ParseSafetensors(std::span<const uint8_t> bytes);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_CONVERT_SAFETENSORS_H_
