// Bytes encoded per second, one thread, by each installed model's tokenizer over the English and
// Chinese passages of XQuAD (CAIRN_TEST_DATA/xquad); the token count is a counter.
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

void BM_Encode(benchmark::State& state, const std::string& model, const std::string& language) {
  const char* data = std::getenv("CAIRN_TEST_DATA");
  absl::StatusOr<std::string> text =
      ReadFile(StrCat(data == nullptr ? "." : data, "/xquad/", language, "/corpus.jsonl"));
  absl::StatusOr<std::unique_ptr<GgufFile>> file =
      GgufFile::Open(StrCat(CairnHome(), "/models/", model, "/model.gguf"));
  if (!text.ok() || !file.ok()) return state.SkipWithError("the text or the model is missing");
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(**file);
  if (!tokenizer.ok()) return state.SkipWithError("the tokenizer does not load");
  size_t num_tokens = 0;
  for (auto _ : state) num_tokens = (*tokenizer)->Encode(*text).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text->size()));
  state.counters["tokens"] = static_cast<double>(num_tokens);
}

BENCHMARK_CAPTURE(BM_Encode, qwen2_en, "qwen2.5-coder-0.5b", "en")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, qwen2_zh, "qwen2.5-coder-0.5b", "zh")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, e5_en, "multilingual-e5-small", "en")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, e5_zh, "multilingual-e5-small", "zh")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Encode, bert_en, "all-minilm-l6-v2", "en")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cairn::engine

BENCHMARK_MAIN();
