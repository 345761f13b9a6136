// Tokens per second of an encoder over passages of 40 to 250 tokens, the size of retrieval chunks,
// or over the lines of a file.
//
//   encoder_benchmark MODEL.gguf [--texts FILE] [--query TEXT] [--threads 0] [--batch-tokens 2048]
//                     [--runs 3] [--vectors FILE]
//
// Embeds the passages (or scores them for the query, with a cross-encoder) `runs` times after a
// warm-up over the first 32. Prints one line of JSON with the median and the extremes of the runs.
// --vectors writes what came out, floats row after row. eval/bench_engine sets it beside others.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "engine/encoder/encoder.h"
#include "kernels/cpu.h"

namespace cairn::engine {
namespace {

constexpr int kPassages = 48;
constexpr size_t kWarmUpPassages = 32;

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

struct Output {
  int64_t num_tokens = 0;
  std::vector<float> values;  // vectors or scores, [num_passages, ...]
};

absl::StatusOr<Output> RunOnce(Encoder& encoder, const std::string& query,
                               std::span<const std::string_view> passages) {
  const RequestContext context = RequestContext::Background();
  if (encoder.is_cross_encoder()) {
    CAIRN_ASSIGN_OR_RETURN(RerankResult result, encoder.Rerank(context, query, passages));
    return Output{result.num_tokens, std::move(result.scores)};
  }
  CAIRN_ASSIGN_OR_RETURN(EmbedResult result, encoder.Embed(context, passages, TextKind::kPassage));
  const int64_t tokens =
      std::accumulate(result.token_counts.begin(), result.token_counts.end(), int64_t{0});
  return Output{tokens, std::move(result.vectors)};
}

using Flags = std::map<std::string, std::string>;

absl::Status Run(const std::string& model, const Flags& flags) {
  EncoderOptions options;
  options.num_threads = std::atoi(flags.at("threads").c_str());
  options.batch_token_budget = std::atoi(flags.at("batch-tokens").c_str());
  const int runs = std::max(1, std::atoi(flags.at("runs").c_str()));
  std::vector<std::string> passages;
  if (flags.at("texts").empty()) {
    passages = Passages();
  } else {
    std::ifstream lines(flags.at("texts"));
    for (std::string line; std::getline(lines, line);) passages.push_back(line);
    if (passages.empty()) return absl::NotFoundError(flags.at("texts") + " has no lines");
  }
  const std::vector<std::string_view> views(passages.begin(), passages.end());

  const absl::Time start = absl::Now();
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Encoder> encoder, Encoder::Load(model, options));
  const double load_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const std::string& query = flags.at("query");
  const auto warm_up = std::span(views).first(std::min(views.size(), kWarmUpPassages));
  CAIRN_RETURN_IF_ERROR(RunOnce(*encoder, query, warm_up).status());
  std::vector<double> rates, processor_rates;
  Output output;
  for (int run = 0; run < runs; ++run) {
    const absl::Time begin = absl::Now();
    const std::clock_t clock_begin = std::clock();
    CAIRN_ASSIGN_OR_RETURN(output, RunOnce(*encoder, query, views));
    const double count = static_cast<double>(output.num_tokens);
    rates.push_back(count / absl::ToDoubleSeconds(absl::Now() - begin));
    processor_rates.push_back(count * CLOCKS_PER_SEC /
                              static_cast<double>(std::clock() - clock_begin));
  }
  if (!flags.at("vectors").empty()) {
    std::ofstream file(flags.at("vectors"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(output.values.data()),
               static_cast<std::streamsize>(output.values.size() * sizeof(float)));
    if (!file.flush()) return absl::InternalError("cannot write " + flags.at("vectors"));
  }
  std::ranges::sort(rates);
  std::ranges::sort(processor_rates);
  const std::string_view isa = kernels::IsaName(kernels::ActiveIsa());
  std::printf(
      "{\"model\": \"%s\", \"texts\": %zu, \"tokens\": %lld, \"tokens_per_s\": %.1f, \"least\": "
      "%.1f, "
      "\"most\": %.1f, \"tokens_per_processor_s\": %.1f, \"isa\": \"%.*s\", \"load_s\": %.3f}\n",
      encoder->fingerprint().c_str(), views.size(), static_cast<long long>(output.num_tokens),
      rates[rates.size() / 2], rates.front(), rates.back(),
      processor_rates[processor_rates.size() / 2], static_cast<int>(isa.size()), isa.data(),
      load_seconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cairn::engine

int main(int argc, char** argv) {
  cairn::engine::Flags flags = {{"texts", ""},    {"query", "how does retrieval work"},
                                {"threads", "0"}, {"batch-tokens", "2048"},
                                {"runs", "3"},    {"vectors", ""}};
  bool good = argc >= 2 && argc % 2 == 0;
  for (int i = 2; i + 1 < argc && good; i += 2) {
    const std::string name = argv[i];
    good = name.starts_with("--") && flags.contains(name.substr(2));
    if (good) flags[name.substr(2)] = argv[i + 1];
  }
  if (!good) {
    std::fprintf(stderr, "usage: %s MODEL.gguf [--FLAG VALUE]..., with the flags", argv[0]);
    for (const auto& [name, value] : flags) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const absl::Status status = cairn::engine::Run(argv[1], flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
