// Safetensors: the parser, and the conversion of what it gives into a GGUF file.
#include <utility>

#include "engine/convert/bert_sources.h"
#include "engine/convert/safetensors.h"
#include "tests/fuzz/bert_traits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::engine;
  const auto parsed = ParseSafetensors({data, size});
  if (!parsed.ok()) return 0;
  auto tensors = BertFromSafetensors(*parsed);
  if (!tensors.ok()) return 0;
  GgufWriter writer;
  if (AddBert(FuzzTraits(), *std::move(tensors), &writer).ok()) (void)writer.Serialize();
  return 0;
}
