#include "sched/batch_bound.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace itif::sched {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t cost_ns(uint32_t tokens) {
  return 2 * kMs + tokens * 100'000;  // 2 ms and 0.1 ms a token
}

// Runs batches that are filled to the bound, as in a flood. Returns the last bound.
uint32_t settle(BatchBound& bound, uint64_t slo_ns, int batches = 200) {
  uint32_t tokens = 0;
  for (int i = 0; i < batches; ++i) {
    tokens = bound.tokens(slo_ns);
    bound.ran(tokens, cost_ns(tokens), slo_ns);
  }
  return tokens;
}

TEST(BatchBound, SettlesWhereTwoBatchesFitTheObjective) {
  BatchBound bound(1024);
  settle(bound, 40 * kMs);
  uint32_t least = UINT32_MAX, most = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t tokens = settle(bound, 40 * kMs, 1);
    least = std::min(least, tokens);
    most = std::max(most, tokens);
  }
  EXPECT_GE(least, 105u);  // 140 tokens take 16 ms
  EXPECT_LE(most, 155u);
}

TEST(BatchBound, WithoutAnObjectiveOnlyTheGroupsBoundApplies) {
  BatchBound bound(1024);
  settle(bound, 10 * kMs);
  EXPECT_LT(bound.tokens(10 * kMs), 100u);
  EXPECT_EQ(bound.tokens(0), 1024u);
}

TEST(BatchBound, AnImpossibleObjectiveAllowsOneRequest) {
  BatchBound bound(1024);
  EXPECT_EQ(settle(bound, kMs), 1u);
}

TEST(BatchBound, RecoversWhenBatchesGetFaster) {
  BatchBound bound(1024);
  settle(bound, kMs);
  EXPECT_GT(settle(bound, 400 * kMs, 400), 900u);
}

// Batches that are small for lack of requests do not show what would fit.
TEST(BatchBound, SmallBatchesDoNotRaiseTheBound) {
  BatchBound bound(1024);
  const uint32_t settled = settle(bound, 40 * kMs);
  for (int i = 0; i < 1000; ++i) bound.ran(8, cost_ns(8), 40 * kMs);
  EXPECT_LE(bound.tokens(40 * kMs), settled + settled / 8);
}

}  // namespace
}  // namespace itif::sched
