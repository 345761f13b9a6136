// Prefill and decode speed of one model, alone on the engine: the numbers to set beside
// llama-bench.
//
//   engine_benchmark MODEL.gguf [PROMPT_TOKENS=512] [GENERATED_TOKENS=64] [THREADS=0] [RUNS=5]
//
// Prefill: tokens of a random prompt of PROMPT_TOKENS over the time to the first token. Decode:
// tokens after the first over the time since the first, after a prompt of 16 tokens (llama-bench
// decodes into an empty context). Prints one line of JSON with the median of RUNS after one warm-up
// run each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/context.h"
#include "engine/engine.h"

namespace cairn::engine {
namespace {

int64_t StatusKib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(key, 0) == 0) return std::atoll(line.c_str() + key.size() + 1);
  }
  return 0;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::StatusOr<GenerateResult> Generate(Engine& engine, int prompt_tokens, int max_tokens,
                                        uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> prompt(prompt_tokens);
  for (TokenId& token : prompt)
    token = static_cast<TokenId>(rng() % engine.tokenizer().vocab_size());
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return engine.Generate(RequestContext::Background(), prompt, options, nullptr);
}

absl::Status Run(int argc, char** argv) {
  const auto number = [&](int i, int fallback) { return argc > i ? std::atoi(argv[i]) : fallback; };
  const int prompt_tokens = number(2, 512);
  const int generated_tokens = number(3, 64);
  const int runs = std::max(1, number(5, 5));
  EngineOptions options;
  options.num_threads = number(4, 0);
  options.step_token_budget = std::max(512, options.max_running);

  const absl::Time start = absl::Now();
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Load(argv[1], options));
  const double load_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const int64_t rss_after_load = StatusKib("VmRSS");
  const int64_t peak_while_loading = StatusKib("VmHWM");

  std::vector<double> prefill, decode;
  for (int run = 0; run <= runs; ++run) {
    CAIRN_ASSIGN_OR_RETURN(const GenerateResult long_prompt,
                           Generate(*engine, prompt_tokens, 1, run));
    CAIRN_ASSIGN_OR_RETURN(const GenerateResult long_answer,
                           Generate(*engine, 16, generated_tokens + 1, run));
    if (run == 0) continue;
    prefill.push_back(prompt_tokens / absl::ToDoubleSeconds(long_prompt.prefill_time));
    decode.push_back(generated_tokens / absl::ToDoubleSeconds(long_answer.decode_time));
  }
  std::printf(
      "{\"prefill_tokens_per_s\": %.2f, \"decode_tokens_per_s\": %.2f, \"prompt_tokens\": %d, "
      "\"generated_tokens\": %d, \"runs\": %d, \"load_s\": %.2f, \"weights_mib\": %.0f, "
      "\"rss_after_load_mib\": %.0f, \"peak_while_loading_mib\": %.0f, \"rss_mib\": %.0f}\n",
      Median(prefill), Median(decode), prompt_tokens, generated_tokens, runs, load_seconds,
      engine->weight_bytes() / 1048576.0, rss_after_load / 1024.0, peak_while_loading / 1024.0,
      StatusKib("VmRSS") / 1024.0);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cairn::engine

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: %s MODEL.gguf [PROMPT_TOKENS [GENERATED_TOKENS [THREADS [RUNS]]]]\n",
                 argv[0]);
    return 2;
  }
  const absl::Status status = cairn::engine::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
