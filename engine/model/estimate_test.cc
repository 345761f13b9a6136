#include "engine/model/estimate.h"

#include <string>

#include "common/worker_pool.h"
#include "engine/model/weights.h"
#include "engine/testing/tiny_model.h"
#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

using testing::TinyModel;
using testing::TinyModelOptions;

TEST(EstimateTest, CountsTheWeightsThatLoadingHolds) {
  for (const bool tied : {true, false}) {
    const std::string bytes = TinyModel({.tied_embeddings = tied}).Serialize();
    std::unique_ptr<GgufFile> file =
        *GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const ModelConfig config = *ReadModelConfig(*file);
    const MemoryEstimate estimate = *EstimateMemory(*file, config, 1000);
    EXPECT_EQ(estimate.kv_bytes_per_token, 2 * config.num_layers * config.kv_dim() * 2);
    EXPECT_EQ(estimate.fixed_bytes(), estimate.weight_bytes + 1000);
    // What is not packed stays in the file, which the loader does not count.
    WorkerPool pool(1);
    const int64_t held = (*ModelWeights::Load(std::move(file), pool))->memory_bytes();
    EXPECT_GE(estimate.weight_bytes, held);
    EXPECT_LE(estimate.weight_bytes, held + static_cast<int64_t>(bytes.size()));
  }
}

TEST(EstimateTest, SaysHowManyFitAndRefusesMore) {
  const MemoryEstimate estimate = {
      .weight_bytes = 1000, .kv_bytes_per_token = 10, .scratch_bytes = 200};
  // 17 tokens take two blocks of 16: 320 bytes.
  EXPECT_EQ(estimate.SequencesThatFit(1199, 17), 0);
  EXPECT_EQ(estimate.SequencesThatFit(1200 + 319, 17), 0);
  EXPECT_EQ(estimate.SequencesThatFit(1200 + 640, 17), 2);
  EXPECT_EQ(estimate.SequencesThatFit(INT64_MAX, INT64_MAX), 0);
  EXPECT_TRUE(estimate.CheckFits(1200 + 640, 17, 2).ok());
  const absl::Status status = estimate.CheckFits(1200 + 640, 17, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* number : {"1000", "200", "320", " 3 ", "17", "1840", " 2 "}) {
    EXPECT_NE(status.message().find(number), std::string::npos) << status;
  }
  EXPECT_FALSE(estimate.CheckFits(100, 17, 0).ok());
}

}  // namespace
}  // namespace cairn::engine
