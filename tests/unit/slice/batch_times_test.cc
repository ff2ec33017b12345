// The line of batch times, against invented batches.
#include "slice/batch_times.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace itif::slice {
namespace {

void add(BatchTimes& times, double tokens, double ns, double kept = 1) {
  times.add({.batches = 1,
             .tokens = tokens,
             .tokens_squared = tokens * tokens,
             .ns = ns,
             .ns_squared = ns * ns,
             .tokens_ns = tokens * ns},
            kept);
}

TEST(BatchTimes, FindsTheLineOfExactTimes) {
  BatchTimes times;
  for (int i = 1; i <= 20; ++i) add(times, 10 * i, 5e6 + 1e4 * 10 * i);
  ASSERT_TRUE(times.line());
  EXPECT_NEAR(times.line()->fixed_ns, 5e6, 1);
  EXPECT_NEAR(times.line()->per_token_ns, 1e4, 1e-3);
}

TEST(BatchTimes, FewBatchesGiveNoLine) {
  BatchTimes times;
  EXPECT_FALSE(times.line());
  for (int i = 1; i <= 9; ++i) add(times, i, 1e6);
  EXPECT_FALSE(times.line());
  add(times, 10, 1e6);
  EXPECT_TRUE(times.line());
}

TEST(BatchTimes, BatchesOfOneSizePromiseNothing) {
  BatchTimes times;
  Random random(1);
  for (int i = 0; i < 100; ++i) add(times, 64, 1e6 * (1 + 0.1 * random.normal()));
  ASSERT_TRUE(times.line());
  EXPECT_NEAR(times.line()->fixed_ns, 0, 1);
  EXPECT_NEAR(times.line()->per_token_ns, 1e6 / 64, 1e6 / 64 * 0.05);
}

// With noise, the line is steeper than the true one in all but a few cases, never below it by much.
TEST(BatchTimes, ErrsToTheSteepSide) {
  int num_flat = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    BatchTimes times;
    for (int i = 0; i < 30; ++i) {
      const double tokens = 1 + static_cast<double>(random.below(100));
      add(times, tokens, (4e6 + 2e4 * tokens) * (1 + 0.1 * random.normal()));
    }
    ASSERT_TRUE(times.line());
    EXPECT_GE(times.line()->fixed_ns, 0);
    EXPECT_GT(times.line()->per_token_ns, 1.5e4);
    EXPECT_LT(times.line()->per_token_ns, 4e4);
    num_flat += times.line()->per_token_ns < 2e4;
  }
  EXPECT_LE(num_flat, 10);
}

TEST(BatchTimes, OldBatchesFade) {
  BatchTimes times;
  for (int i = 1; i <= 50; ++i) add(times, i, 9e6);
  for (int i = 1; i <= 400; ++i) add(times, i % 50, 1e6 + 1e4 * (i % 50), 0.8);
  ASSERT_FALSE(times.line());  // the weights sum to 5
  for (int i = 1; i <= 400; ++i) add(times, i % 50, 1e6 + 1e4 * (i % 50), 0.95);
  ASSERT_TRUE(times.line());
  EXPECT_NEAR(times.line()->fixed_ns, 1e6, 1e3);
}

TEST(BatchTimes, TellsTheSizeOfBatchesByToken) {
  BatchTimes times;
  EXPECT_EQ(times.tokens_per_batch(), 0);
  add(times, 10, 1);
  add(times, 90, 1);
  EXPECT_NEAR(times.tokens_per_batch(), 0.1 * 10 + 0.9 * 90, 1e-9);
}

}  // namespace
}  // namespace itif::slice
