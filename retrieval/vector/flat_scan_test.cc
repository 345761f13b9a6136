#include "retrieval/vector/flat_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "common/strings.h"

namespace cairn::retrieval {
namespace {

std::vector<float> RandomRows(std::mt19937* random, size_t n, size_t dimension) {
  std::normal_distribution<float> normal;
  std::vector<float> rows(n * dimension);
  for (float& v : rows) v = normal(*random);
  return rows;
}

TEST(NormalizeRows, RefusesWhatHasNoDirection) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, infinity, -infinity}) {
    std::vector<float> rows = {1, 0, 0, bad};
    const absl::Status status = NormalizeRows(rows, 2);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToString().find("vector 1"), std::string::npos) << status;
  }
  std::vector<float> zero = {0, 0};
  EXPECT_FALSE(NormalizeRows(zero, 2).ok());
  std::vector<float> tiny = {1e-40f, 0};
  EXPECT_FALSE(NormalizeRows(tiny, 2).ok());
}

TEST(NormalizeRows, ScaleDoesNotMatter) {
  std::mt19937 random(3);
  const std::vector<float> rows = RandomRows(&random, 4, 16);
  for (const float scale : {1e-12f, 0.5f, 3.0f, 1e15f}) {
    std::vector<float> plain = rows, scaled = rows;
    for (float& v : scaled) v *= scale;
    ASSERT_TRUE(NormalizeRows(plain, 16).ok());
    ASSERT_TRUE(NormalizeRows(scaled, 16).ok());
    // One rounding each for the product and the scaling: within a few ulp of values below 1.
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], scaled[i], 4 * 6e-8);
  }
}

// Every selectivity gives min(k, eligible) rows, those of plain loops in double.
TEST(ScanVectors, EqualsPlainLoopsUnderFilters) {
  std::mt19937 random(7);
  const size_t dimension = 48;
  const std::vector<size_t> sizes = {1, 700, 1300};
  std::vector<std::vector<float>> segments;
  for (const size_t n : sizes) {
    segments.push_back(RandomRows(&random, n, dimension));
    ASSERT_TRUE(NormalizeRows(segments.back(), dimension).ok());
  }
  std::copy_n(segments[1].begin(), dimension, segments[2].begin());  // a tie between segments
  std::vector<std::vector<std::string>> ids;
  for (size_t s = 0; s < sizes.size(); ++s) {
    ids.emplace_back();
    for (size_t i = 0; i < sizes[s]; ++i) ids[s].push_back(StrCat(random() % 1000, "-", s, "-", i));
  }
  const ChunkIdFn id = [&](uint32_t s, uint32_t c) { return std::string_view(ids[s][c]); };

  for (const double selectivity : {0.0, 0.001, 0.05, 0.5, 1.0}) {
    std::vector<Bitmap> eligible;
    std::vector<VectorView> views;
    for (const size_t n : sizes) {
      Bitmap& bits = eligible.emplace_back(n);
      for (size_t i = 0; i < n; ++i) {
        if (std::generate_canonical<double, 32>(random) < selectivity) bits.Set(i);
      }
    }
    for (size_t s = 0; s < sizes.size(); ++s)
      views.push_back({segments[s].data(), sizes[s], &eligible[s]});
    std::vector<float> query(segments[1].begin(), segments[1].begin() + dimension);

    std::vector<ScoredChunk> all;
    for (uint32_t s = 0; s < sizes.size(); ++s) {
      for (uint32_t i = 0; i < sizes[s]; ++i) {
        if (!eligible[s].Get(i)) continue;
        double sum = 0;
        for (size_t d = 0; d < dimension; ++d)
          sum += double{query[d]} * segments[s][i * dimension + d];
        all.push_back({s, i, sum});
      }
    }
    std::sort(all.begin(), all.end(), [&](const ScoredChunk& a, const ScoredChunk& b) {
      return a.score != b.score ? a.score > b.score
                                : id(a.segment, a.chunk) < id(b.segment, b.chunk);
    });
    const auto found = ScanVectors(RequestContext::Background(), query, views, 25, id);
    ASSERT_TRUE(found.ok());
    ASSERT_EQ(found->size(), std::min<size_t>(25, all.size()));
    for (size_t i = 0; i < found->size(); ++i) {
      EXPECT_EQ(id((*found)[i].segment, (*found)[i].chunk), id(all[i].segment, all[i].chunk));
      EXPECT_NEAR((*found)[i].score, all[i].score, 48 * 6e-8);
    }
  }
}

TEST(ScanVectors, StopsWhenCancelled) {
  CancelSource source;
  source.Cancel();
  const std::vector<float> rows = {1, 0}, query = {1, 0};
  const VectorView view{rows.data(), 1, nullptr};
  const auto found = ScanVectors(RequestContext(source), query, {&view, 1}, 1,
                                 [](uint32_t, uint32_t) { return std::string_view(); });
  EXPECT_EQ(found.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace cairn::retrieval
