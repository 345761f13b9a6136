// Prefill and decode speed of one model, alone on the engine: the numbers to set beside llama-bench
// and llama-batched-bench.
//
//   engine_benchmark MODEL.gguf [--prompt 512] [--prefix 0] [--generate 64] [--depth 16] [--streams
//   1]
//                    [--threads 0] [--runs 5] [--quote 0]
//
// Prefill: `prompt` random tokens over the time to the first token, after `prefix` tokens that are
// in the prefix cache. Decode: tokens after the first over the time since the first, in `streams`
// requests at once whose contexts hold `depth` tokens (cached before the clock starts, so that all
// begin together). Quote: the first `quote` tokens of an answer that repeats its prompt, with and
// without guessing at them (engine/speculative), which all else here goes without. Each is left out
// with 0 tokens. Prints one line of JSON with the median of
// `runs` after one warm-up run each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/context.h"
#include "engine/engine.h"
#include "engine/kv_cache/block_pool.h"

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

std::vector<TokenId> RandomTokens(const Engine& engine, int count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens)
    token = static_cast<TokenId>(rng() % engine.tokenizer().vocab_size());
  return tokens;
}

absl::StatusOr<GenerateResult> Generate(Engine& engine, const std::vector<TokenId>& prompt,
                                        int max_tokens, bool prompt_lookup = false) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  options.prompt_lookup = prompt_lookup;
  return engine.Generate(RequestContext::Background(), prompt, options, nullptr);
}

// Tokens a second.
absl::StatusOr<double> Prefill(Engine& engine, int prefix, int prompt, uint32_t seed) {
  std::vector<TokenId> tokens = RandomTokens(engine, prefix, seed);
  if (prefix > 0) CAIRN_RETURN_IF_ERROR(Generate(engine, tokens, 1).status());
  const std::vector<TokenId> rest = RandomTokens(engine, prompt, ~seed);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  CAIRN_ASSIGN_OR_RETURN(const GenerateResult result, Generate(engine, tokens, 1));
  return (result.prompt_tokens - result.cached_tokens) / absl::ToDoubleSeconds(result.prefill_time);
}

absl::StatusOr<double> Decode(Engine& engine, int streams, int depth, int count, uint32_t seed) {
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < streams; ++i) {
    prompts.push_back(RandomTokens(engine, depth, seed * 1000 + i));
    CAIRN_RETURN_IF_ERROR(Generate(engine, prompts.back(), 1).status());
  }
  std::vector<absl::StatusOr<GenerateResult>> results(streams, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int i = 0; i < streams; ++i) {
    threads.emplace_back([&, i] { results[i] = Generate(engine, prompts[i], count + 1); });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Duration longest;
  for (const absl::StatusOr<GenerateResult>& result : results) {
    CAIRN_RETURN_IF_ERROR(result.status());
    longest = std::max(longest, result->decode_time);
  }
  return streams * count / absl::ToDoubleSeconds(longest);
}

// A text of no particular meaning that is not in anybody's training data, in so many sentences.
std::string Story(int sentences, uint32_t seed) {
  static constexpr const char* kWho[] = {"The miller", "A grey heron", "The night train",
                                         "Her brother", "The old engineer"};
  static constexpr const char* kDoes[] = {"carries", "forgets", "measures", "paints", "follows"};
  static constexpr const char* kWhat[] = {"the brass key", "nine sacks of barley",
                                          "a map of the bay", "the second lamp",
                                          "the letter from Tula"};
  std::mt19937 rng(seed);
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += std::string(kWho[rng() % 5]) + " " + kDoes[rng() % 5] + " " + kWhat[rng() % 5] +
            " at " + std::to_string(rng() % 24) + ":" + std::to_string(10 + rng() % 50) + ". ";
  }
  return text;
}

// Tokens a second, with and without guesses; UNKNOWN if they do not say the same.
absl::StatusOr<std::pair<double, double>> Quote(Engine& engine, int count, uint32_t seed) {
  const ChatMessage message{.content =
                                "Copy this text, word for word and without any comment:\n\n" +
                                Story(5 + count / 8, seed)};
  CAIRN_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt,
                         engine.chat_template().Render({&message, 1}, engine.tokenizer(), true));
  CAIRN_RETURN_IF_ERROR(Generate(engine, prompt, 1).status());
  CAIRN_ASSIGN_OR_RETURN(const GenerateResult guessed, Generate(engine, prompt, count + 1, true));
  CAIRN_ASSIGN_OR_RETURN(const GenerateResult plain, Generate(engine, prompt, count + 1));
  if (guessed.text != plain.text) return absl::UnknownError("guesses changed the text");
  return std::pair(count / absl::ToDoubleSeconds(guessed.decode_time),
                   count / absl::ToDoubleSeconds(plain.decode_time));
}

absl::Status Run(const char* model, std::map<std::string, int> flags) {
  const int runs = std::max(1, flags["runs"]);
  EngineOptions options;
  options.num_threads = flags["threads"];
  options.max_running = std::max(8, flags["streams"]);
  const int longest = std::max({flags["prefix"] + flags["prompt"],
                                flags["depth"] + flags["generate"], 6 * flags["quote"] + 500});
  options.max_context = std::max(longest + 2, 1024);
  options.kv_cache_tokens =
      int64_t{options.max_context + kBlockTokens} * std::max(2, flags["streams"]);

  const absl::Time start = absl::Now();
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Load(model, options));
  const double load_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const int64_t rss_after_load = StatusKib("VmRSS");
  const int64_t peak_while_loading = StatusKib("VmHWM");

  std::vector<double> prefill, decode, quoted, quoted_plain;
  for (int run = 0; run <= runs; ++run) {
    double prefill_rate = 0, decode_rate = 0;
    if (flags["prompt"] > 0) {
      CAIRN_ASSIGN_OR_RETURN(prefill_rate, Prefill(*engine, flags["prefix"], flags["prompt"], run));
    }
    if (flags["generate"] > 0) {
      CAIRN_ASSIGN_OR_RETURN(
          decode_rate, Decode(*engine, flags["streams"], flags["depth"], flags["generate"], run));
    }
    std::pair<double, double> quote_rates;
    if (flags["quote"] > 0) {
      CAIRN_ASSIGN_OR_RETURN(quote_rates, Quote(*engine, flags["quote"], run));
    }
    if (run == 0) continue;
    quoted.push_back(quote_rates.first);
    quoted_plain.push_back(quote_rates.second);
    prefill.push_back(prefill_rate);
    decode.push_back(decode_rate);
  }
  std::printf(
      "{\"prefill_tokens_per_s\": %.2f, \"decode_tokens_per_s\": %.2f, "
      "\"quote_tokens_per_s\": %.2f, \"quote_plain_tokens_per_s\": %.2f, \"load_s\": %.2f, "
      "\"weights_mib\": %.0f, \"rss_after_load_mib\": %.0f, \"peak_while_loading_mib\": %.0f, "
      "\"peak_mib\": %.0f}\n",
      Median(prefill), Median(decode), Median(quoted), Median(quoted_plain), load_seconds,
      engine->weight_bytes() / 1048576.0, rss_after_load / 1024.0, peak_while_loading / 1024.0,
      StatusKib("VmHWM") / 1024.0);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cairn::engine

int main(int argc, char** argv) {
  std::map<std::string, int> flags = {{"prompt", 512}, {"prefix", 0},  {"generate", 64},
                                      {"depth", 16},   {"streams", 1}, {"threads", 0},
                                      {"runs", 5},     {"quote", 0}};
  bool good = argc >= 2 && argc % 2 == 0;
  for (int i = 2; good && i < argc; i += 2) {
    const std::string name = argv[i];
    good =
        name.rfind("--", 0) == 0 && flags.contains(name.substr(2)) && std::atoi(argv[i + 1]) >= 0;
    if (good) flags[name.substr(2)] = std::atoi(argv[i + 1]);
  }
  if (!good) {
    std::fprintf(stderr, "usage: %s MODEL.gguf [--FLAG NUMBER]..., with the flags", argv[0]);
    for (const auto& [name, value] : flags) std::fprintf(stderr, " %s=%d", name.c_str(), value);
    std::fprintf(stderr, "\n");
    return 2;
  }
  const absl::Status status = cairn::engine::Run(argv[1], flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
