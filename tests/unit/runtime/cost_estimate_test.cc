// Learns the cost of batches from samples that cost 10 ms plus 0.1 ms a token.
#include "runtime/cost/cost_estimate.h"

#include <gtest/gtest.h>

namespace itif::runtime {
namespace {

constexpr double kMs = 1e6;

uint64_t true_ns(uint32_t tokens) {
  return 10'000'000 + uint64_t{tokens} * 100'000;
}

TEST(CostEstimate, IsZeroAtFirstAndIgnoresTheColdBatch) {
  CostEstimate cost;
  EXPECT_EQ(cost.batch_ns(512), 0);
  EXPECT_EQ(cost.backlog_ns(1e6, 1, 1024), 0);
  cost.add(3, 900'000'000);
  EXPECT_EQ(cost.batch_ns(512), 0);
}

TEST(CostEstimate, FindsFixedAndPerTokenParts) {
  CostEstimate cost;
  for (int i = 0; i < 50; ++i)
    for (const uint32_t tokens : {5u, 60u, 200u, 500u}) cost.add(tokens, true_ns(tokens));
  for (const uint32_t tokens : {1u, 128u, 512u, 1000u})
    EXPECT_NEAR(cost.batch_ns(tokens), static_cast<double>(true_ns(tokens)),
                0.05 * static_cast<double>(true_ns(tokens)))
        << tokens;
  EXPECT_NEAR(cost.backlog_ns(4096, 1, 1024), 40 * kMs + 409.6 * kMs, 25 * kMs);
}

TEST(CostEstimate, SmallBatchesDoNotInflateLargeEstimates) {
  CostEstimate cost;
  // Noise of ±1 ms that happens to grow with the batch size.
  for (int i = 0; i < 100; ++i)
    for (const uint32_t tokens : {3u, 4u, 5u})
      cost.add(tokens, true_ns(tokens) + (tokens - 3) * 1'000'000);
  EXPECT_LT(cost.batch_ns(512), static_cast<double>(true_ns(512)));
  EXPECT_GE(cost.batch_ns(512), 10 * kMs);
}

TEST(CostEstimate, FollowsAMachineThatGetsFaster) {
  CostEstimate cost;
  for (int i = 0; i < 100; ++i) cost.add(128, 80'000'000);
  for (int i = 0; i < 100; ++i) cost.add(128, 20'000'000);
  EXPECT_NEAR(cost.batch_ns(128), 20 * kMs, kMs);
}

TEST(CostEstimate, DistrustLowersTheEstimate) {
  CostEstimate cost;
  for (int i = 0; i < 10; ++i) cost.add(128, 100'000'000);
  const double before = cost.batch_ns(128);
  cost.distrust();
  EXPECT_NEAR(cost.batch_ns(128), 0.9 * before, 1);
  for (int i = 0; i < 30; ++i) cost.distrust();
  EXPECT_LT(cost.batch_ns(128), 5 * kMs);
}

}  // namespace
}  // namespace itif::runtime
