// GGUF: the parser, and all that reads a parsed file: metadata, tokenizer, chat template, model
// configuration, weights.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/worker_pool.h"
#include "engine/chat/chat_template.h"
#include "engine/gguf/gguf.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {
namespace {

void ReadMetadata(const GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    (void)file.GetInt(key);
    (void)file.GetFloat(key);
    (void)file.GetBool(key);
    (void)file.GetString(key);
    (void)file.GetStrings(key);
    (void)file.GetInts(key);
    (void)file.GetFloats(key);
  }
}

void UseTokenizer(const GgufFile& file) {
  const auto tokenizer = Tokenizer::Load(file);
  if (!tokenizer.ok()) return;
  const Tokenizer& t = **tokenizer;
  for (const bool special : {false, true}) {
    const std::vector<TokenId> ids = t.Encode(
        "The quick\t fox <|end|> 3.14 \xE4\xBD\xA0\xE5\xA5\xBD \xFF\n\n", {special, special});
    for (const TokenId id : ids) CAIRN_CHECK(id >= 0 && id < t.vocab_size());
    (void)t.Decode(ids, special);
  }
  std::vector<int32_t> type_ids;
  bool truncated = false;
  (void)t.EncodePair("first", "second", 8, &type_ids, &truncated);
  for (const TokenId id : t.end_of_generation()) CAIRN_CHECK(id >= 0 && id < t.vocab_size());
  for (const TokenId id : {t.bos(), t.eos()}) CAIRN_CHECK(id >= -1 && id < t.vocab_size());
  const auto chat = ChatTemplate::Load(file);
  if (!chat.ok()) return;
  const ChatMessage message{.role = ChatRole::kUser, .content = "hello", .tool_calls = {}};
  (void)(*chat)->Render({&message, 1}, t, /*add_generation_prompt=*/true);
}

}  // namespace
}  // namespace cairn::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::engine;
  static cairn::WorkerPool pool(1);
  auto file = GgufFile::Parse({data, size});
  if (!file.ok()) return 0;
  ReadMetadata(**file);
  UseTokenizer(**file);
  (void)ReadModelConfig(**file);
  const auto weights = ModelWeights::Load(*std::move(file), pool);
  if (!weights.ok()) return 0;
  std::vector<float> row((*weights)->config().embedding_dim);
  for (const int token : {0, (*weights)->config().vocab_size - 1}) {
    (*weights)->EmbeddingRow(token, row.data());
  }
  return 0;
}
