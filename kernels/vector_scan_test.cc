#include "kernels/vector_scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/random_weights.h"

namespace cairn::kernels {
namespace {

class VectorScanTest : public testing::Test {
 protected:
  // All eligible rows sorted by score in double; small integers keep F32 scores exact, with many
  // ties.
  std::vector<int64_t> Oracle(const float* query, const std::vector<float>& rows, int64_t dim,
                              int64_t k, const std::vector<bool>& eligible) {
    std::vector<std::pair<double, int64_t>> all;
    for (int64_t r = 0; r < static_cast<int64_t>(rows.size()) / dim; ++r) {
      if (!eligible[r]) continue;
      double score = 0;
      for (int64_t d = 0; d < dim; ++d) score += double{query[d]} * rows[r * dim + d];
      all.push_back({-score, r});
    }
    std::sort(all.begin(), all.end());
    std::vector<int64_t> best;
    for (int64_t i = 0; i < std::min<int64_t>(k, all.size()); ++i) best.push_back(all[i].second);
    return best;
  }
  std::vector<float> SmallIntegers(int64_t count) {
    std::vector<float> x(count);
    for (float& v : x) v = static_cast<float>(static_cast<int>(rng_() % 7) - 3);
    return x;
  }

  std::mt19937 rng_{1};
  WorkerPool pool_{2};
};

TEST_F(VectorScanTest, TopKEqualsSortingEverything) {
  for (int64_t n : {1, 5, 127, 129, 20000}) {
    for (int64_t dim : {3, 16, 37}) {
      const std::vector<float> rows = SmallIntegers(n * dim), queries = SmallIntegers(70 * dim);
      for (int64_t num_queries : {1, 3, 70}) {
        if (num_queries == 70 && n > 1000) continue;
        const std::vector<bool> all(n, true);
        const auto got =
            TopKInnerProduct(queries.data(), num_queries, rows.data(), n, dim, 10, nullptr, pool_);
        ASSERT_EQ(got.size(), num_queries);
        for (int64_t q = 0; q < num_queries; ++q) {
          std::vector<int64_t> ids;
          for (const ScoredRow& row : got[q]) ids.push_back(row.row);
          ASSERT_EQ(ids, Oracle(&queries[q * dim], rows, dim, 10, all)) << n << " " << dim;
        }
      }
    }
  }
}

TEST_F(VectorScanTest, OnlyEligibleRowsAreReturned) {
  const int64_t n = 1000, dim = 8;
  const std::vector<float> rows = SmallIntegers(n * dim), query = SmallIntegers(dim);
  for (int keep_one_in : {1, 2, 100, 1001}) {
    std::vector<bool> eligible(n);
    std::vector<uint64_t> bits((n + 63) / 64);
    for (int64_t r = 0; r < n; ++r) {
      eligible[r] = (r + 1) % keep_one_in == 0;
      if (eligible[r]) bits[r / 64] |= uint64_t{1} << (r % 64);
    }
    const auto got = TopKInnerProduct(query.data(), 1, rows.data(), n, dim, 20, bits.data(), pool_);
    std::vector<int64_t> ids;
    for (const ScoredRow& row : got[0]) ids.push_back(row.row);
    EXPECT_EQ(ids, Oracle(query.data(), rows, dim, 20, eligible)) << keep_one_in;
  }
}

TEST_F(VectorScanTest, ScoresAreCloseAndDoNotDependOnTheBatch) {
  const int64_t n = 333, dim = 384, num_queries = 5;
  const std::vector<float> rows = RandomFloats(n * dim, &rng_),
                           queries = RandomFloats(num_queries * dim, &rng_);
  std::vector<float> scores(num_queries * n), alone(n);
  InnerProducts(queries.data(), num_queries, rows.data(), n, dim, scores.data());
  for (int64_t q = 0; q < num_queries; ++q) {
    InnerProducts(&queries[q * dim], 1, rows.data(), n, dim, alone.data());
    for (int64_t r = 0; r < n; ++r) {
      double want = 0, magnitude = 0;
      for (int64_t d = 0; d < dim; ++d) {
        want += double{queries[q * dim + d]} * rows[r * dim + d];
        magnitude += std::fabs(double{queries[q * dim + d]} * rows[r * dim + d]);
      }
      ASSERT_NEAR(scores[q * n + r], want, magnitude * dim * 0x1p-24);
      ASSERT_EQ(scores[q * n + r], alone[r]);
    }
    const auto top =
        TopKInnerProduct(&queries[q * dim], 1, rows.data(), n, dim, n, nullptr, pool_)[0];
    ASSERT_EQ(top.size(), n);
    for (const ScoredRow& row : top) ASSERT_EQ(row.score, alone[row.row]);
  }
}

TEST_F(VectorScanTest, EdgeCases) {
  const float rows[] = {1, NAN, 2};
  const float query = 1;
  EXPECT_TRUE(TopKInnerProduct(&query, 1, rows, 3, 1, 0, nullptr, pool_)[0].empty());
  EXPECT_TRUE(TopKInnerProduct(&query, 1, rows, 0, 1, 5, nullptr, pool_)[0].empty());
  EXPECT_TRUE(TopKInnerProduct(&query, 0, rows, 3, 1, 5, nullptr, pool_).empty());
  const auto got = TopKInnerProduct(&query, 1, rows, 3, 1, 5, nullptr, pool_)[0];
  ASSERT_EQ(got.size(), 3);
  EXPECT_EQ(got[0].row, 2);
  EXPECT_EQ(got[1].row, 0);
  EXPECT_EQ(got[2].row, 1);
}

}  // namespace
}  // namespace cairn::kernels
