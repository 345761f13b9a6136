// GgufWriter: makes GGUF version 3 files, for model converters and tests.
//
// Metadata and tensors appear in the order of the calls. The first mistake (a duplicate name, a
// tensor whose bytes do not match its shape) is remembered and returned by Serialize and WriteFile.
//
// Ownership: copies metadata; takes tensor bytes over.
// Threads:   thread-compatible.
#ifndef CAIRN_ENGINE_GGUF_GGUF_WRITER_H_
#define CAIRN_ENGINE_GGUF_GGUF_WRITER_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "kernels/dtype.h"

namespace cairn::engine {

class GgufWriter {
 public:
  void AddBool(std::string_view key, bool value);
  void AddInt32(std::string_view key, int32_t value);
  void AddUint32(std::string_view key, uint32_t value);
  void AddInt64(std::string_view key, int64_t value);
  void AddUint64(std::string_view key, uint64_t value);
  void AddFloat(std::string_view key, float value);
  void AddString(std::string_view key, std::string_view value);
  void AddStrings(std::string_view key, std::span<const std::string> values);
  void AddInts(std::string_view key, std::span<const int32_t> values);
  void AddFloats(std::string_view key, std::span<const float> values);
  void AddBools(std::string_view key, const std::vector<bool>& values);

  // `dims[0]` is the contiguous dimension; `data` are the blocks of `type`, row after row.
  void AddTensor(std::string_view name, kernels::DType type, std::vector<int64_t> dims,
                 std::vector<uint8_t> data);

  absl::StatusOr<std::string> Serialize() const;
  // Replaces the file atomically.
  absl::Status WriteFile(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    kernels::DType type;
    std::vector<int64_t> dims;
    std::vector<uint8_t> data;
  };
  // Begins one metadata entry; its value follows in `metadata_`.
  void BeginValue(std::string_view key, uint32_t type);
  void BeginArray(std::string_view key, uint32_t element_type, uint64_t count);

  absl::Status status_;
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> tensor_names_;
  std::string metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_GGUF_GGUF_WRITER_H_
