#include "engine/model/estimate.h"

#include <unistd.h>

#include <algorithm>

#include "common/check.h"
#include "common/checked_math.h"
#include "common/strings.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"

namespace cairn::engine {
namespace {

// What a tensor takes once loaded: matrices are packed, unless their type stays a view.
int64_t LoadedBytes(const GgufTensor& tensor) {
  const int64_t in_file = static_cast<int64_t>(tensor.data.size());
  if (tensor.dims.size() != 2) return in_file;
  const int64_t packed =
      static_cast<int64_t>(kernels::PackedBytes(tensor.type, tensor.rows(), tensor.cols()));
  return packed > 0 ? packed : in_file;
}

int64_t SequenceBytes(const MemoryEstimate& estimate, int64_t context) {
  CAIRN_CHECK(context > 0);
  int64_t bytes = 0;
  const int64_t blocks = (context - 1) / kernels::kKvBlockSize + 1;
  if (!CheckedMul(blocks, int64_t{kernels::kKvBlockSize}, &bytes) ||
      !CheckedMul(bytes, estimate.kv_bytes_per_token, &bytes)) {
    return INT64_MAX;
  }
  return bytes;
}

}  // namespace

int64_t MemoryEstimate::SequencesThatFit(int64_t memory_bytes, int64_t context) const {
  const int64_t free = memory_bytes - std::min(memory_bytes, fixed_bytes());
  return free / SequenceBytes(*this, context);
}

absl::Status MemoryEstimate::CheckFits(int64_t memory_bytes, int64_t context,
                                       int64_t sequences) const {
  const int64_t fit = SequencesThatFit(memory_bytes, context);
  if (fixed_bytes() <= memory_bytes && fit >= sequences) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      StrCat(weight_bytes, " bytes of weights, ", scratch_bytes, " of scratch and ",
             SequenceBytes(*this, context), " for each of ", sequences, " sequences of ", context,
             " tokens do not fit ", memory_bytes, " bytes of memory; ", fit,
             fit == 1 ? " sequence would" : " sequences would"));
}

absl::StatusOr<MemoryEstimate> EstimateMemory(const GgufFile& file, const ModelConfig& config,
                                              int64_t scratch_bytes) {
  constexpr int64_t kHalfBytes = 2;
  MemoryEstimate estimate;
  estimate.scratch_bytes = scratch_bytes;
  estimate.kv_bytes_per_token = 2 * config.num_layers * config.kv_dim() * kHalfBytes;
  for (const GgufTensor& tensor : file.tensors()) estimate.weight_bytes += LoadedBytes(tensor);
  // A tied output matrix is packed beside the rows of the embedding, which stay in the file.
  CAIRN_ASSIGN_OR_RETURN(const GgufTensor* embedding, file.Tensor("token_embd.weight"));
  const bool tied = file.FindTensor("output.weight") == nullptr;
  const int64_t rows = static_cast<int64_t>(embedding->data.size());
  if (!tied) {
    estimate.weight_bytes += rows - LoadedBytes(*embedding);
  } else if (kernels::PackedBytes(embedding->type, embedding->rows(), embedding->cols()) > 0) {
    estimate.weight_bytes += rows;
  }
  return estimate;
}

int64_t PhysicalMemory() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

}  // namespace cairn::engine
