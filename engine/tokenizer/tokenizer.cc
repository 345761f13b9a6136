#include "engine/tokenizer/tokenizer.h"

#include "common/strings.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/spm.h"
#include "engine/tokenizer/unigram.h"
#include "engine/tokenizer/wordpiece.h"

namespace cairn::engine {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const GgufFile& file) {
  CAIRN_ASSIGN_OR_RETURN(std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model == "gpt2") return BpeTokenizer::Load(file);
  if (model == "llama") return SpmTokenizer::Load(file);
  if (model == "t5") return UnigramTokenizer::Load(file);
  if (model == "bert") return WordPieceTokenizer::Load(file);
  return absl::UnimplementedError(StrCat("tokenizer: unknown tokenizer model '", model, "'"));
}

}  // namespace cairn::engine
