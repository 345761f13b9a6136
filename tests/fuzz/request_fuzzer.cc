// Requests of any shape to a tiny model: Generate gives a Status or a text within its limits, and
// the engine has its cache back afterwards.
#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "common/check.h"
#include "common/utf8.h"
#include "engine/engine.h"
#include "engine/testing/tiny_model.h"

namespace cairn::engine {
namespace {

// Values out of the input, in order; zeros once it has ended.
class ByteSource {
 public:
  ByteSource(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <typename T>
  T Take() {
    static_assert(std::is_arithmetic_v<T>);
    T value = 0;
    const size_t n = std::min(sizeof(T), size_);
    if (n > 0) std::memcpy(&value, data_, n);
    data_ += n;
    size_ -= n;
    return value;
  }

  // A plausible number most of the time, so that requests get past validation, or any bits at all.
  float Float(float low, float high) {
    const uint8_t kind = Take<uint8_t>();
    if (kind < 16) return Take<float>();
    return low + (high - low) * static_cast<float>(Take<uint8_t>()) / 255.0f;
  }
  int Int(int low, int high) {
    const uint8_t kind = Take<uint8_t>();
    if (kind < 16) return Take<int>();
    return low + static_cast<int>(Take<uint8_t>()) % (high - low + 1);
  }
  std::string Text(size_t max) {
    const size_t n = std::min(size_, Take<uint16_t>() % (max + 1));
    const std::string text(reinterpret_cast<const char*>(data_), std::min(n, size_));
    data_ += text.size();
    size_ -= text.size();
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

Engine& TinyEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    const testing::TinyModel model({.num_layers = 1,
                                    .embedding_dim = 32,
                                    .num_heads = 2,
                                    .num_kv_heads = 1,
                                    .feed_forward_dim = 32,
                                    .context_length = 64});
    auto loaded = Engine::Load(model.WriteTemp("fuzz"), {.max_context = 64, .num_threads = 1});
    CAIRN_CHECK(loaded.ok());
    return *std::move(loaded);
  }();
  return *engine;
}

}  // namespace
}  // namespace cairn::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn;
  using namespace cairn::engine;
  constexpr int kVocab = engine::testing::TinyModel::kVocabSize;
  ByteSource in(data, size);
  GenerateOptions options;
  SamplingParams& s = options.sampling;
  s.temperature = in.Float(0, 3);
  s.top_k = in.Int(0, kVocab);
  s.top_p = in.Float(0.01f, 1);
  s.min_p = in.Float(0, 0.99f);
  s.repetition_penalty = in.Float(0.5f, 2);
  s.presence_penalty = in.Float(-2, 2);
  s.frequency_penalty = in.Float(-2, 2);
  s.seed = in.Take<uint64_t>();
  const uint8_t biases = in.Take<uint8_t>();
  for (int i = 0; i < biases % 8; ++i) {
    const int token = in.Int(0, 255);
    s.logit_bias.emplace_back(token, in.Float(-100, 100));
  }
  options.max_tokens = in.Int(1, 24);
  options.top_logprobs = in.Int(0, 20);
  const uint8_t flags = in.Take<uint8_t>();
  options.logprobs = (flags & 1) != 0;
  options.ignore_eos = (flags & 2) != 0;
  const int stops = flags >> 2 & 31;
  for (int i = 0; i < stops % 20; ++i) options.stop.push_back(in.Text(300));
  const int stop_after = in.Int(0, 40);  // deltas that the callback wants
  std::vector<TokenId> prompt(in.Take<uint8_t>() % 72);
  for (TokenId& token : prompt) token = in.Int(0, 255);

  Engine& model = TinyEngine();
  int deltas = 0;
  std::string streamed;
  const auto result =
      model.Generate(RequestContext::Background(), prompt, options, [&](std::string_view delta) {
        streamed += delta;
        return ++deltas != stop_after;
      });
  if (result.ok()) {
    CAIRN_CHECK(result->completion_tokens <= options.max_tokens);
    CAIRN_CHECK(result->prompt_tokens == static_cast<int>(prompt.size()));
    CAIRN_CHECK(result->text == streamed);
    CAIRN_CHECK(IsValidUtf8(result->text));
    for (const std::string& stop : options.stop) {
      CAIRN_CHECK(result->finish_reason == FinishReason::kCancelled ||
                  result->text.find(stop) == std::string::npos);
    }
  }
  CAIRN_CHECK(model.stats().kv_inconsistencies == 0);
  return 0;
}
