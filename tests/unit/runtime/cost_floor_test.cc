// Finds the undisturbed time of batches from samples that cost 1 ms plus 0.01 ms a token, and often
// more.
#include "runtime/cost/cost_floor.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace itif::runtime {
namespace {

uint64_t linear_ns(uint32_t tokens) {
  return 1'000'000 + uint64_t{tokens} * 10'000;
}

TEST(CostFloor, HasNoBoundAtFirst) {
  const CostFloor floor;
  EXPECT_EQ(floor.batch_ns(100), 0u);
  EXPECT_EQ(floor.tokens_within(1), std::numeric_limits<uint32_t>::max());
}

TEST(CostFloor, IgnoresDisturbances) {
  CostFloor floor;
  Random random(3);
  for (int i = 0; i < 2000; ++i)
    for (const uint32_t tokens : {10u, 64u, 128u, 1024u})
      floor.add(tokens, linear_ns(tokens) * (1 + random.below(20) * random.below(2)));
  for (const uint32_t tokens : {10u, 64u, 128u, 1024u}) {
    EXPECT_GE(floor.batch_ns(tokens), linear_ns(tokens));
    EXPECT_LE(floor.batch_ns(tokens), linear_ns(tokens) * 11 / 10);
  }
}

TEST(CostFloor, UnseenSizesAreProportional) {
  CostFloor floor;
  floor.add(100, 2'000'000);
  floor.add(1000, 11'000'000);
  EXPECT_EQ(floor.batch_ns(50), 1'000'000u);
  EXPECT_EQ(floor.batch_ns(500), 5'500'000u);
  EXPECT_EQ(floor.batch_ns(2000), 22'000'000u);
  EXPECT_EQ(floor.tokens_within(1'000'000), 50u);
  EXPECT_EQ(floor.tokens_within(2'000'000), 100u);
  EXPECT_EQ(floor.tokens_within(4'000'000), 200u);
  EXPECT_EQ(floor.tokens_within(10'999'999), 549u);
  EXPECT_EQ(floor.tokens_within(22'000'000), 2000u);
  EXPECT_EQ(floor.tokens_within(0), 0u);
}

// 4,096 tokens take 10.24 us each. 1,276 take 10.78 us each, which is 1/0.95 times as long.
TEST(CostFloor, KnowsTheLeastEfficientSize) {
  CostFloor floor;
  EXPECT_EQ(floor.efficient_tokens(4096), 0u);
  floor.add(10, linear_ns(10));
  floor.add(19, linear_ns(19));
  EXPECT_EQ(floor.efficient_tokens(4096), 0u);  // too close to tell
  floor.add(100, linear_ns(100));
  EXPECT_NEAR(floor.efficient_tokens(4096), 1276, 2);
  floor.add(4000, linear_ns(4000));
  EXPECT_NEAR(floor.efficient_tokens(4096), 1276, 2);
  floor.add(1000, linear_ns(1000));
  floor.add(2000, linear_ns(2000));
  EXPECT_NEAR(floor.efficient_tokens(4096), 1276, 2);
}

// Up to 500 tokens a batch takes 5 ms, as on a GPU that reads its weights meanwhile.
TEST(CostFloor, FindsTheKneeBetweenSizesSeen) {
  CostFloor floor;
  const auto add = [&](uint32_t tokens) { floor.add(tokens, std::max(500u, tokens) * 10'000ull); };
  add(10);
  add(4096);
  EXPECT_NEAR(floor.efficient_tokens(4096), 3000, 1000);  // on a line between the two
  for (int i = 0; i < 20; ++i) add(floor.efficient_tokens(4096));
  EXPECT_NEAR(floor.efficient_tokens(4096), 490, 20);
}

// Sizes that need the same number of tiles take the same time, as on a GPU. A size whose last tiles
// are mostly empty is not efficient.
TEST(CostFloor, StepsOfTheTimeDoNotMakeInefficientSizesEfficient) {
  for (const uint32_t step : {64, 96, 128, 160, 192, 224, 256, 320, 384}) {
    const auto step_ns = [&](uint32_t tokens) {
      return 2.6e6 + 1e4 * step * ((tokens + step - 1) / step);
    };
    const double aim_ns = step_ns(1024) / 1024 / sched::BatchCost::kEfficiency;  // per token
    CostFloor floor;
    Random random(1);
    for (int i = 0; i < 1000; ++i) {
      const auto tokens = 10 + static_cast<uint32_t>(random.below(1014));
      floor.add(tokens, static_cast<uint64_t>(step_ns(tokens)));
    }
    const uint32_t efficient = floor.efficient_tokens(1024);
    EXPECT_LE(step_ns(efficient) / efficient, 1.05 * aim_ns)
        << efficient << " of steps of " << step;
  }
}

TEST(CostFloor, EverySizeIsEfficientWithoutFixedCost) {
  CostFloor floor;
  floor.add(10, 100'000);
  floor.add(1000, 10'000'000);
  EXPECT_EQ(floor.efficient_tokens(4096), 0u);
}

TEST(CostFloor, StaysBelowASizeThatTookLonger) {
  CostFloor floor;
  floor.add(100, 2'000'000);
  floor.add(150, 9'000'000);
  EXPECT_EQ(floor.tokens_within(8'000'000), 149u);
}

// A tenant with short requests only would otherwise keep the size of its batches for ever after one
// disturbed larger batch, because larger ones would not run again.
TEST(CostFloor, ADisturbedSizeIsTriedAgain) {
  CostFloor floor;
  floor.add(128, 500'000);
  floor.add(256, 5'000'000);
  EXPECT_EQ(floor.tokens_within(4'000'000), 255u);
  int batches = 0;
  for (; floor.tokens_within(4'000'000) == 255 && batches < 1000; ++batches)
    floor.add(128, 500'000);
  EXPECT_GT(batches, 10);
  EXPECT_LT(batches, 100);
  EXPECT_EQ(floor.tokens_within(4'000'000), 1024u);
  floor.add(256, 5'000'000);  // it does take so long
  EXPECT_EQ(floor.tokens_within(4'000'000), 255u);
  floor.add(256, 1'000'000);
  EXPECT_EQ(floor.tokens_within(4'000'000), 1024u);
}

TEST(CostFloor, AdaptsToASlowerMachine) {
  CostFloor floor;
  floor.add(64, 1'000'000);
  for (int i = 0; i < 300; ++i) floor.add(64, 3'000'000);
  EXPECT_EQ(floor.batch_ns(64), 3'000'000u);
}

TEST(CostFloor, AcceptsAnySizeAndTime) {
  CostFloor floor;
  floor.add(std::numeric_limits<uint32_t>::max(), 1);
  floor.add(1, std::numeric_limits<uint64_t>::max());
  EXPECT_GT(floor.tokens_within(5), 0u);
}

}  // namespace
}  // namespace itif::runtime
