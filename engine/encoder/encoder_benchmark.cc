// Tokens per second of an encoder over passages of 40 to 250 tokens, the size of retrieval chunks.
//
//   encoder_benchmark MODEL.gguf [THREADS [BATCH_TOKENS]]
//
// Embeds (or scores, for a cross-encoder) 48 passages after one warm-up, three times; prints the
// median and the spread. tests/scripts/benchmark_onnxruntime.py does the same with onnxruntime.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "engine/encoder/encoder.h"
#include "kernels/cpu.h"

namespace cairn::engine {
namespace {

constexpr int kPassages = 48;
constexpr int kRuns = 3;

// Passage i repeats one sentence 2 to 12 times.
std::vector<std::string> Passages() {
  std::vector<std::string> passages;
  for (int i = 0; i < kPassages; ++i) {
    std::string passage;
    for (int s = 0; s < 2 + i % 11; ++s) {
      passage +=
          "Retrieval systems find a few passages among many before a language model reads them "
          "all. ";
    }
    passages.push_back(passage);
  }
  return passages;
}

absl::StatusOr<int64_t> RunOnce(Encoder& encoder, const std::vector<std::string_view>& passages) {
  const RequestContext context = RequestContext::Background();
  if (encoder.is_cross_encoder()) {
    CAIRN_ASSIGN_OR_RETURN(const RerankResult result,
                           encoder.Rerank(context, "how does retrieval work", passages));
    return result.num_tokens;
  }
  CAIRN_ASSIGN_OR_RETURN(const EmbedResult result,
                         encoder.Embed(context, passages, TextKind::kPassage));
  int64_t tokens = 0;
  for (const int count : result.token_counts) tokens += count;
  return tokens;
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: encoder_benchmark MODEL.gguf [THREADS [BATCH_TOKENS]]\n");
    return 2;
  }
  EncoderOptions options;
  if (argc > 2) options.num_threads = std::atoi(argv[2]);
  if (argc > 3) options.batch_token_budget = std::atoi(argv[3]);
  const absl::Time start = absl::Now();
  const auto encoder = Encoder::Load(argv[1], options);
  if (!encoder.ok()) {
    std::fprintf(stderr, "%s\n", encoder.status().ToString().c_str());
    return 1;
  }
  const double load_ms = absl::ToDoubleMilliseconds(absl::Now() - start);
  const std::vector<std::string> passages = Passages();
  const std::vector<std::string_view> views(passages.begin(), passages.end());
  std::vector<double> rates, processor_rates;
  for (int run = 0; run <= kRuns; ++run) {
    const absl::Time begin = absl::Now();
    const std::clock_t clock_begin = std::clock();
    const auto tokens = RunOnce(**encoder, views);
    if (!tokens.ok()) {
      std::fprintf(stderr, "%s\n", tokens.status().ToString().c_str());
      return 1;
    }
    if (run == 0) continue;
    const double count = static_cast<double>(*tokens);
    rates.push_back(count / absl::ToDoubleSeconds(absl::Now() - begin));
    processor_rates.push_back(count * CLOCKS_PER_SEC /
                              static_cast<double>(std::clock() - clock_begin));
  }
  std::sort(rates.begin(), rates.end());
  std::sort(processor_rates.begin(), processor_rates.end());
  const std::string_view isa = kernels::IsaName(kernels::ActiveIsa());
  std::printf(
      "%s: %.0f tokens/s (%.0f..%.0f), %.0f tokens per processor second, %.*s, loaded in %.0f ms\n",
      (*encoder)->fingerprint().c_str(), rates[kRuns / 2], rates.front(), rates.back(),
      processor_rates[kRuns / 2], static_cast<int>(isa.size()), isa.data(), load_ms);
  return 0;
}

}  // namespace
}  // namespace cairn::engine

int main(int argc, char** argv) { return cairn::engine::Main(argc, argv); }
