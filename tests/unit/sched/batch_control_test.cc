// The bound of a batch under objectives, with invented costs: where each control settles, how fast,
// and when it asks for another share of the device.
#include "sched/batch_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace itif::sched {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t cost_ns(uint32_t tokens) {
  return 2 * kMs + tokens * 100'000;  // 2 ms and 0.1 ms a token
}

// Runs a batch of requests of a token.
void run(BatchControl& control, uint32_t tokens, uint64_t execute_ns, uint64_t slo_ns) {
  control.ran(
      {.num_tokens = tokens, .execute_ns = execute_ns, .slo_ns = slo_ns, .num_requests = tokens});
}

// Runs batches that are filled to the bound, as in a flood. Returns the last bound.
uint32_t settle(BatchControl& control, uint64_t slo_ns, int batches = 200) {
  uint32_t tokens = 0;
  for (int i = 0; i < batches; ++i) {
    tokens = control.tokens(slo_ns);
    run(control, tokens, cost_ns(tokens), slo_ns);
  }
  return tokens;
}

class BatchControlTest : public ::testing::TestWithParam<BatchControlKind> {
 protected:
  std::unique_ptr<BatchControl> make(uint32_t max_tokens = 1024) {
    return make_batch_control(GetParam(), max_tokens);
  }
};

std::string name_of(const ::testing::TestParamInfo<BatchControlKind>& info) {
  return std::string(kBatchControlNames[static_cast<size_t>(info.param)]);
}

// Those that follow objectives.
INSTANTIATE_TEST_SUITE_P(Controls, BatchControlTest,
                         ::testing::Values(BatchControlKind::kAimd, BatchControlKind::kSlab),
                         name_of);

TEST_P(BatchControlTest, SettlesWhereTwoBatchesFitTheObjective) {
  const auto control = make();
  settle(*control, 40 * kMs);
  uint32_t least = UINT32_MAX, most = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t tokens = settle(*control, 40 * kMs, 1);
    least = std::min(least, tokens);
    most = std::max(most, tokens);
  }
  EXPECT_GE(least, 105u);  // 140 tokens take 16 ms
  EXPECT_LE(most, 155u);
}

// The first batch tells how long a token takes.
TEST_P(BatchControlTest, TheFirstBatchWithAnObjectiveHasOneRequest) {
  const auto control = make();
  EXPECT_EQ(control->tokens(0), 1024u);
  run(*control, 1024, cost_ns(1024), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(control->tokens(40 * kMs), 1u) << "none has run yet";
  }
  control->ran({.num_tokens = 64, .execute_ns = 8 * kMs, .slo_ns = 40 * kMs, .num_requests = 1});
  EXPECT_EQ(control->tokens(40 * kMs), 128u);
  EXPECT_EQ(control->tokens(0), 1024u);
  EXPECT_EQ(control->tokens(40 * kMs), 128u);
}

TEST_P(BatchControlTest, WithoutAnObjectiveOnlyTheGroupsBoundApplies) {
  const auto control = make();
  settle(*control, 10 * kMs);
  EXPECT_LT(control->tokens(10 * kMs), 100u);
  EXPECT_EQ(control->tokens(0), 1024u);
}

TEST_P(BatchControlTest, AnImpossibleObjectiveAllowsOneRequest) {
  EXPECT_EQ(settle(*make(), kMs), 1u);
}

TEST_P(BatchControlTest, RecoversWhenBatchesGetFaster) {
  const auto control = make();
  settle(*control, kMs);
  EXPECT_GT(settle(*control, 400 * kMs, 400), 900u);
}

// Batches that are small for lack of requests do not show what would fit.
TEST_P(BatchControlTest, SmallBatchesDoNotRaiseTheBound) {
  const auto control = make();
  const uint32_t settled = settle(*control, 40 * kMs);
  for (int i = 0; i < 1000; ++i) run(*control, 8, cost_ns(8), 40 * kMs);
  EXPECT_LE(control->tokens(40 * kMs), settled + settled / 8);
}

// One late batch of a busy machine costs at most half of the bound.
TEST_P(BatchControlTest, AnOutlierAtMostHalvesTheBound) {
  const auto control = make();
  const uint32_t settled = settle(*control, 40 * kMs);
  run(*control, settled, 1000 * kMs, 40 * kMs);
  EXPECT_GE(control->tokens(40 * kMs), settled / 2);
}

// In a row: five batches of one request that are too long, however small the bound is.
TEST_P(BatchControlTest, AsksForMoreIfOneRequestIsTooLong) {
  const auto control = make();
  settle(*control, kMs);
  EXPECT_EQ(control->ask(), slice::Ask::kMore);
  run(*control, 1, kMs / 10, kMs);
  EXPECT_EQ(control->ask(), slice::Ask::kNothing);
  for (int i = 0; i < 4; ++i) run(*control, 1, kMs, kMs);
  EXPECT_EQ(control->ask(), slice::Ask::kNothing);
  run(*control, 1, kMs, kMs);
  EXPECT_EQ(control->ask(), slice::Ask::kMore);
  run(*control, 1, kMs, 0);  // the objective has gone
  EXPECT_EQ(control->ask(), slice::Ask::kNothing);
}

TEST_P(BatchControlTest, ADecreaseIsNoReasonToAsk) {
  const auto control = make();
  for (int i = 0; i < 6; ++i) {
    settle(*control, 10 * kMs, 1);
    EXPECT_NE(control->ask(), slice::Ask::kMore);
  }
}

// In a row: five batches with slack, limited by the requests alone.
TEST_P(BatchControlTest, AsksForLessIfBatchesHaveSlack) {
  const auto control = make();
  settle(*control, 40 * kMs);
  EXPECT_EQ(control->ask(), slice::Ask::kNothing);  // the bound uses the headroom
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(control->ask(), slice::Ask::kNothing);
    run(*control, 8, cost_ns(8), 40 * kMs);
  }
  EXPECT_EQ(control->ask(), slice::Ask::kLess);
  const auto largest = make(16);  // the group's limit limits
  settle(*largest, 40 * kMs, 20);
  EXPECT_EQ(largest->ask(), slice::Ask::kLess);
}

// The bound still rises into the headroom, so there is no slack yet.
TEST_P(BatchControlTest, ARisingBoundIsNoReasonToAsk) {
  const auto control = make(4096);
  settle(*control, 6 * kMs);
  for (int i = 0; i < 20; ++i) {
    settle(*control, 400 * kMs, 1);
    EXPECT_EQ(control->ask(), slice::Ask::kNothing) << i;
  }
}

TEST(Fixed, FollowsNoObjective) {
  const auto control = make_batch_control(BatchControlKind::kFixed, 1024);
  EXPECT_EQ(settle(*control, kMs), 1024u);
  EXPECT_EQ(control->ask(), slice::Ask::kMore);  // its batches cannot get shorter
  EXPECT_EQ(settle(*control, 10'000 * kMs), 1024u);
  EXPECT_EQ(control->ask(), slice::Ask::kLess);
}

// A batch whose time is a fixed part and a part per token grows past the best size by a token at
// most.
TEST(Slab, ApproachesTheBestSizeFromOneSide) {
  const auto control = make_batch_control(BatchControlKind::kSlab, 1024);
  settle(*control, 6 * kMs);
  for (uint32_t last = 0, i = 0; i < 50; ++i) {
    const uint32_t tokens = settle(*control, 200 * kMs, 1);
    EXPECT_GE(tokens, std::min(last, 780u));
    EXPECT_LE(tokens, 781u);  // 780 take 80 ms
    last = tokens;
  }
  EXPECT_GE(control->tokens(200 * kMs), 775u);
}

// Two requests of 100 tokens do not fit a bound of 150, so one is all that could run.
// 60 tokens in 3 ms seem to allow 320. The bound stays: it did not limit the batch.
TEST(Slab, AShortBatchWithRoomDoesNotRaiseTheBound) {
  const auto control = make_batch_control(BatchControlKind::kSlab, 1024);
  const uint32_t settled = settle(*control, 40 * kMs);
  run(*control, 60, 3 * kMs, 40 * kMs);
  EXPECT_EQ(control->tokens(40 * kMs), settled);
}

// Rounded down, 1 · 25 / 14 would stay 1 for ever.
TEST(Slab, GrowsFromOne) {
  const auto control = make_batch_control(BatchControlKind::kSlab, 1024);
  settle(*control, kMs);
  run(*control, 1, 14 * kMs, 125 * kMs / 2);
  EXPECT_EQ(control->tokens(kMs), 2u);
}

TEST(Slab, ABatchWithoutRoomForTheNextRequestIsFull) {
  const auto control = make_batch_control(BatchControlKind::kSlab, 1024);
  run(*control, 1, 1, 40 * kMs);
  while (control->tokens(40 * kMs) > 150) run(*control, 250, 30 * kMs, 40 * kMs);
  ASSERT_GT(control->tokens(40 * kMs), 120u);
  control->ran({.num_tokens = 100, .execute_ns = 4 * kMs, .slo_ns = 40 * kMs, .num_requests = 1});
  EXPECT_EQ(control->tokens(40 * kMs), 400u);
}

// aimd stayed at one request of 64 tokens once its bound was between 74 and 127: no such batch
// filled it to an eighth.
TEST_P(BatchControlTest, GrowsFromOneRequestOfManyTokens) {
  constexpr uint32_t kTokens = 64;
  constexpr uint64_t kSloNs = 200 * kMs;
  const auto control = make();
  const auto run_requests = [&](uint32_t num_requests, uint64_t execute_ns) {
    control->ran({.num_tokens = num_requests * kTokens,
                  .execute_ns = execute_ns,
                  .slo_ns = kSloNs,
                  .num_requests = num_requests});
  };
  run_requests(1, 900 * kMs);
  EXPECT_LE(control->tokens(kSloNs), kTokens) << "far too long";
  uint32_t num_requests = 0;
  for (int i = 0; i < 200; ++i) {
    num_requests = std::max(1u, control->tokens(kSloNs) / kTokens);
    run_requests(num_requests, cost_ns(num_requests * kTokens));
  }
  EXPECT_GE(num_requests, 10u) << "12 requests take 79 ms, and the aim is 80 ms";
  EXPECT_LE(num_requests, 13u);
}

TEST(BatchControl, NamesAreParsed) {
  for (size_t i = 0; i < kBatchControlNames.size(); ++i) {
    const auto kind = parse_batch_control(kBatchControlNames[i]);
    ASSERT_TRUE(kind);
    EXPECT_EQ(static_cast<size_t>(*kind), i);
  }
  for (const char* name : {"", "SLAB", "slab ", "clipper"}) {
    const auto refused = parse_batch_control(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().message,
              "'" + std::string(name) + "' is not one of: aimd, slab, fixed");
  }
}

}  // namespace
}  // namespace itif::sched
