// MemoryEstimate: what a generator will take, worked out from its file's header before anything is
// loaded.
//
// Weights are counted as ModelWeights holds them: matrices as the kernels pack them, the rest of
// the tensors as they lie in the file. The program, the tokenizer and gRPC come on top.
#ifndef CAIRN_ENGINE_MODEL_ESTIMATE_H_
#define CAIRN_ENGINE_MODEL_ESTIMATE_H_

#include <cstdint>

#include "common/status.h"
#include "engine/gguf/gguf.h"
#include "engine/model/config.h"

namespace cairn::engine {

struct MemoryEstimate {
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;  // keys and values of all layers
  int64_t scratch_bytes = 0;       // of a step

  int64_t fixed_bytes() const { return weight_bytes + scratch_bytes; }
  // How many sequences of `context` tokens (a whole number of blocks each) fit beside the rest into
  // `memory_bytes`; 0 if none. REQUIRES: context > 0.
  int64_t SequencesThatFit(int64_t memory_bytes, int64_t context) const;
  // RESOURCE_EXHAUSTED, with the numbers, if not even `sequences` of them fit.
  absl::Status CheckFits(int64_t memory_bytes, int64_t context, int64_t sequences) const;
};

// `scratch_bytes` is Runner::ScratchBytes. NOT_FOUND without an embedding table.
absl::StatusOr<MemoryEstimate> EstimateMemory(const GgufFile& file, const ModelConfig& config,
                                              int64_t scratch_bytes);

// Bytes of memory of this machine.
int64_t PhysicalMemory();

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_MODEL_ESTIMATE_H_
