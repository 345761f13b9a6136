// vocab.txt of a WordPiece encoder: the conversion into GGUF keys and the tokenizer made of them.
#include <algorithm>
#include <string_view>

#include "common/check.h"
#include "engine/convert/wordpiece_vocab.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::engine;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  GgufWriter writer;
  const int64_t rows = std::count(text.begin(), text.end(), '\n');
  if (!AddWordPieceVocabulary(text, rows, &writer).ok()) return 0;
  const auto bytes = writer.Serialize();
  CAIRN_CHECK(bytes.ok());
  const auto file =
      GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  if (!file.ok()) return 0;
  const auto tokenizer = Tokenizer::Load(**file);
  if (!tokenizer.ok()) return 0;
  for (const TokenId id : (*tokenizer)->Encode("hello \xC3\xA9t\xC3\xA9, lolo \xFF [CLS]")) {
    CAIRN_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  }
  return 0;
}
