// GgufFile: a GGUF model file (versions 2 and 3, little-endian), mapped read-only.
//
// Every count, length and offset in the file is checked before it is used. Tensors may not overlap.
//
// Ownership: the file owns the mapping; tensors and strings are views into it.
// Threads:   thread-safe after Open.
// Errors:    INVALID_ARGUMENT or OUT_OF_RANGE for a truncated or hostile file, UNIMPLEMENTED for an
//            element type that we do not read; the message names the key or tensor and the numbers.
// Format:    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef CAIRN_ENGINE_GGUF_GGUF_H_
#define CAIRN_ENGINE_GGUF_GGUF_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/file.h"
#include "common/status.h"
#include "kernels/dtype.h"

namespace cairn::engine {

struct GgufTensor {
  std::string name;
  kernels::DType type;
  // Dimensions in file order: dims[0] is the contiguous one (the input width of a weight matrix).
  std::vector<int64_t> dims;
  std::span<const uint8_t> data;
  int64_t num_elements() const;
  // Row-major [rows, cols] view of a 1-d or 2-d tensor: cols = dims[0], rows = dims[1] or 1.
  int64_t cols() const { return dims.empty() ? 0 : dims[0]; }
  int64_t rows() const { return dims.size() < 2 ? 1 : dims[1]; }
};

// One metadata value. Integers of every width are widened; arrays keep one of four element kinds.
using GgufValue =
    std::variant<bool, int64_t, uint64_t, double, std::string_view, std::vector<std::string_view>,
                 std::vector<int64_t>, std::vector<float>, std::vector<bool>>;

class GgufFile {
 public:
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // The same over bytes in memory, which must outlive the object (tests and fuzzers).
  static absl::StatusOr<std::unique_ptr<GgufFile>> Parse(std::span<const uint8_t> bytes);

  const GgufTensor* FindTensor(std::string_view name) const;
  // NOT_FOUND naming the tensor.
  absl::StatusOr<const GgufTensor*> Tensor(std::string_view name) const;
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  bool Has(std::string_view key) const;
  // Typed access: NOT_FOUND when absent, INVALID_ARGUMENT when of another type or out of range.
  // Integers are accepted for GetFloat.
  absl::StatusOr<int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::span<const std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::span<const int64_t>> GetInts(std::string_view key) const;
  absl::StatusOr<std::span<const float>> GetFloats(std::string_view key) const;
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

 private:
  GgufFile() = default;
  std::unique_ptr<MappedFile> file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_GGUF_GGUF_H_
