// ONNX: the protobuf reader, and the conversion of the graph into a GGUF file.
#include <utility>

#include "engine/convert/bert_sources.h"
#include "engine/convert/onnx.h"
#include "tests/fuzz/bert_traits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::engine;
  const auto graph = ParseOnnx({data, size});
  if (!graph.ok()) return 0;
  auto tensors = BertFromOnnx(*graph);
  if (!tensors.ok()) return 0;
  GgufWriter writer;
  if (AddBert(FuzzTraits(), *std::move(tensors), &writer).ok()) (void)writer.Serialize();
  return 0;
}
