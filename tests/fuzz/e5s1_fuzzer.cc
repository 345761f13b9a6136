// E5S1: the container's parser, the conversion into a GGUF file, and the tokenizer made of its
// vocabulary.
#include <string>
#include <utility>

#include "engine/convert/e5s1.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/bert_traits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::engine;
  auto parsed = ParseE5s1({data, size});
  if (!parsed.ok()) return 0;
  GgufWriter writer;
  // The vocabulary also on its own: it needs no sound weights.
  (void)AddBert(FuzzTraits(), parsed->tensors, &writer);
  GgufWriter vocabulary;
  AddE5s1Vocabulary(*parsed, &vocabulary);
  const auto bytes = vocabulary.Serialize();
  if (!bytes.ok()) return 0;
  const auto file =
      GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  if (!file.ok()) return 0;
  const auto tokenizer = Tokenizer::Load(**file);
  if (tokenizer.ok()) (void)(*tokenizer)->Decode((*tokenizer)->Encode("a b\xC3\xA9 \xFF"));
  return 0;
}
