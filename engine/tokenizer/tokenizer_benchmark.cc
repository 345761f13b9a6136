// Bytes encoded per second, one thread, by each installed model's tokenizer over the English and
// Chinese passages of XQuAD (CAIRN_TEST_DATA/xquad), and over 256 KiB and 1 MiB of text without
// words, where the rate may fall as a heap and the caches let it; the token count is a counter.
//
//   CAIRN_TEST_DATA=DIR tokenizer_benchmark
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "common/file.h"
#include "common/strings.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {
namespace {

void Encode(benchmark::State& state, const std::string& model, const std::string& text) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file =
      GgufFile::Open(StrCat(CairnHome(), "/models/", model, "/model.gguf"));
  if (!file.ok()) return state.SkipWithError("the model is missing");
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(**file);
  if (!tokenizer.ok()) return state.SkipWithError("the tokenizer does not load");
  size_t num_tokens = 0;
  for (auto _ : state) num_tokens = (*tokenizer)->Encode(text).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(num_tokens);
}

void BM_Encode(benchmark::State& state, const std::string& model, const std::string& language) {
  const char* data = std::getenv("CAIRN_TEST_DATA");
  absl::StatusOr<std::string> text =
      ReadFile(StrCat(data == nullptr ? "." : data, "/xquad/", language, "/corpus.jsonl"));
  if (!text.ok()) return state.SkipWithError("the text is missing");
  Encode(state, model, *text);
}

void BM_Hostile(benchmark::State& state, const std::string& model, const std::string& unit) {
  std::string text;
  while (static_cast<int64_t>(text.size()) < state.range(0)) text += unit;
  Encode(state, model, text);
}

BENCHMARK_CAPTURE(BM_Encode, qwen2_en, "qwen2.5-coder-0.5b", "en")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, qwen2_zh, "qwen2.5-coder-0.5b", "zh")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, e5_en, "multilingual-e5-small", "en")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, e5_zh, "multilingual-e5-small", "zh")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, bert_en, "all-minilm-l6-v2", "en")->Unit(benchmark::kMillisecond);

#define CAIRN_HOSTILE(name, model, unit)           \
  BENCHMARK_CAPTURE(BM_Hostile, name, model, unit) \
      ->Arg(1 << 18)                               \
      ->Arg(1 << 20)                               \
      ->Unit(benchmark::kMillisecond)

CAIRN_HOSTILE(qwen2_letter, "qwen2.5-coder-0.5b", "a");
CAIRN_HOSTILE(qwen2_spaces, "qwen2.5-coder-0.5b", " ");
CAIRN_HOSTILE(qwen2_digits, "qwen2.5-coder-0.5b", "1");
CAIRN_HOSTILE(qwen2_lines, "qwen2.5-coder-0.5b", "\r\n");
CAIRN_HOSTILE(qwen2_marks, "qwen2.5-coder-0.5b", "\u0301");
CAIRN_HOSTILE(qwen2_han, "qwen2.5-coder-0.5b", "\u4F60");
CAIRN_HOSTILE(e5_letter, "multilingual-e5-small", "a");
CAIRN_HOSTILE(e5_spaces, "multilingual-e5-small", " ");
CAIRN_HOSTILE(e5_digits, "multilingual-e5-small", "1");
CAIRN_HOSTILE(e5_lines, "multilingual-e5-small", "\r\n");
CAIRN_HOSTILE(e5_marks, "multilingual-e5-small", "\u0301");
CAIRN_HOSTILE(e5_han, "multilingual-e5-small", "\u4F60");
CAIRN_HOSTILE(bert_letter, "all-minilm-l6-v2", "a");
CAIRN_HOSTILE(bert_spaces, "all-minilm-l6-v2", " ");
CAIRN_HOSTILE(bert_digits, "all-minilm-l6-v2", "1");
CAIRN_HOSTILE(bert_lines, "all-minilm-l6-v2", "\r\n");
CAIRN_HOSTILE(bert_marks, "all-minilm-l6-v2", "\u0301");
CAIRN_HOSTILE(bert_han, "all-minilm-l6-v2", "\u4F60");

}  // namespace
}  // namespace cairn::engine

BENCHMARK_MAIN();
