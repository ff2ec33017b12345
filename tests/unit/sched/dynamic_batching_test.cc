// Bounds, refusals and a flood, with virtual times and invented costs.
#include "sched/dynamic_batching.h"

#include "policy_fixture.h"

namespace itif::sched {
namespace {

class DynamicBatchingTest : public PolicyFixture {
 protected:
  static constexpr PolicyOptions kOptions{
      .limits = {.max_tokens = 1024, .max_requests = 256},
      .queue = {.max_requests = 1000, .max_tenant_requests = 1000, .max_slots = 4}};

  DynamicBatchingTest() { make("fair", kOptions); }

  // One tenant floods with requests of 50 tokens. Another sends one just after a batch begins, the
  // worst moment. Returns the longest time until its answer.
  uint64_t longest_wait_in_a_flood(std::string_view name, uint64_t slo_ns) {
    make(name, kOptions);
    uint64_t now_ns = kMs;
    const auto run_batch = [&] {
      while (policy->queue().num_requests() < 100) push({.tokens = 50, .at_ns = now_ns});
      choose(now_ns);
      const auto execute_ns = static_cast<uint64_t>(expected.batch_ns(batch_tokens()));
      now_ns += execute_ns;
      policy->ran(
          {batch_tokens(), execute_ns, choice.slo_ns, static_cast<uint32_t>(choice.batch.size())});
    };
    uint64_t longest_ns = 0;
    for (int i = 0; i < 100; ++i) {
      const uint64_t arrival_ns = now_ns;
      run_batch();
      push({.slot = 1, .tokens = 50, .slo_ns = slo_ns, .at_ns = arrival_ns});
      do run_batch();
      while (count(1) == 0);
      if (i > 20) longest_ns = std::max(longest_ns, now_ns - arrival_ns);
    }
    return longest_ns;
  }
};

TEST_F(DynamicBatchingTest, RefusesOnlyRequestsThatWouldMissTheirDeadline) {
  request::Request& passed = push({.tokens = 1, .deadline_ns = 5 * kMs});
  request::Request& late = push({.tokens = 100, .deadline_ns = 19 * kMs});
  request::Request& met = push({.tokens = 100, .deadline_ns = 20 * kMs});
  policy->choose({.now_ns = 5 * kMs, .start_ns = 10 * kMs, .costs = costs()}, choice);
  EXPECT_EQ(choice.batch, std::vector<request::Request*>{&met});
  ASSERT_EQ(choice.refused.size(), 2u);
  EXPECT_EQ(choice.refused[0].request, &passed);
  EXPECT_EQ(choice.refused[0].why, DeadlineMiss::kPassed);
  EXPECT_EQ(choice.refused[1].request, &late);
  EXPECT_EQ(choice.refused[1].why, DeadlineMiss::kTooSoon);
}

// A token takes 0.1 ms, the objective is 40 ms. The first batch of 1024 tokens is late. aimd and
// slab then halve it, fixed does not.
TEST_F(DynamicBatchingTest, TheBatchControlSetsTheBound) {
  const auto after_a_late_batch = [&](BatchControlKind kind) {
    PolicyOptions options = kOptions;
    options.batch_control = kind;
    make("fair", options);
    run_fast_batch();
    for (int i = 0; i < 2; ++i) {
      while (policy->queue().num_requests() < 300)
        push({.tokens = 16, .slo_ns = 40 * kMs, .at_ns = kMs});
      choose(kMs);
      policy->ran({batch_tokens(), 100'000ull * batch_tokens(), choice.slo_ns});
    }
    return batch_tokens();
  };
  EXPECT_EQ(after_a_late_batch(BatchControlKind::kAimd), 512u);
  EXPECT_EQ(after_a_late_batch(BatchControlKind::kSlab), 512u);
  EXPECT_EQ(after_a_late_batch(BatchControlKind::kFixed), 1024u);
  EXPECT_EQ(policy->share_ask(), slice::Ask::kNothing);
  for (int i = 0; i < 3; ++i) policy->ran({1024, 102 * kMs, 40 * kMs});
  EXPECT_EQ(policy->share_ask(), slice::Ask::kMore);
}

// A request alone takes 14 ms, which is more than the objective. Three take 24 ms.
TEST_F(DynamicBatchingTest, AnUnreachableObjectiveDoesNotShrinkBatchesToOneRequest) {
  expected = LinearCost{9.0 * kMs, 0.1 * kMs};
  undisturbed = &expected;
  uint64_t now_ns = kMs;
  for (int i = 0; i < 50; ++i) {
    while (policy->queue().num_requests() < 100)
      push({.tokens = 50, .slo_ns = kMs, .at_ns = now_ns});
    choose(now_ns);
    EXPECT_GE(choice.batch.size(), 3u);
    const auto execute_ns = static_cast<uint64_t>(expected.batch_ns(batch_tokens()));
    now_ns += execute_ns;
    policy->ran({batch_tokens(), execute_ns, choice.slo_ns});
  }
}

// Infeasible requests also leave the middle of a tenant's queue, so that later batches refuse none.
TEST_F(DynamicBatchingTest, InfeasibleRequestsLeaveTheWholeQueue) {
  std::vector<request::Request*> feasible;
  for (uint32_t i = 0; i < 60; ++i) {
    const uint64_t deadline_ns = i % 3 == 0 ? 0 : i % 3 == 1 ? 14 * kMs : 500 * kMs;
    request::Request& r = push({.slot = i % 4, .tokens = 50, .deadline_ns = deadline_ns});
    if (deadline_ns != 14 * kMs) feasible.push_back(&r);
  }
  // 50 tokens take 5 ms.
  const ExecutorState state{.now_ns = kMs, .start_ns = 10 * kMs, .costs = costs()};
  policy->choose(state, choice);
  EXPECT_EQ(choice.refused.size(), 20u);
  for (const Refused& one : choice.refused) EXPECT_EQ(one.why, DeadlineMiss::kTooSoon);
  std::vector<request::Request*> left = choice.batch;
  EXPECT_EQ(policy->queue().num_requests(), feasible.size() - left.size());
  EXPECT_EQ(policy->queue().num_tokens(), 50 * policy->queue().num_requests());
  while (policy->queue().num_requests() > 0) {
    policy->choose(state, choice);
    EXPECT_TRUE(choice.refused.empty());
    left.insert(left.end(), choice.batch.begin(), choice.batch.end());
  }
  std::ranges::sort(left);
  std::ranges::sort(feasible);
  EXPECT_EQ(left, feasible);
}

TEST_F(DynamicBatchingTest, AnIdleDeviceStartsNow) {
  push({.tokens = 100, .deadline_ns = 19 * kMs});
  policy->choose({.now_ns = 10 * kMs, .start_ns = 2 * kMs, .costs = costs()}, choice);
  EXPECT_EQ(choice.refused.size(), 1u);
}

TEST_F(DynamicBatchingTest, AnUnknownCostRefusesOnlyPassedDeadlines) {
  push({.tokens = 100, .deadline_ns = 5 * kMs});
  push({.tokens = 100, .deadline_ns = 5 * kMs + 1});
  policy->choose({.now_ns = 5 * kMs}, choice);
  EXPECT_EQ(choice.batch.size(), 1u);
  EXPECT_EQ(choice.refused.size(), 1u);
}

TEST_F(DynamicBatchingTest, BatchesThatRanTooLongLowerTheBound) {
  const auto fill = [&] {
    while (policy->queue().num_requests() < 100)
      push({.tokens = 16, .slo_ns = 40 * kMs, .at_ns = kMs});
    choose(kMs);
  };
  run_fast_batch();
  fill();
  EXPECT_EQ(choice.slo_ns, 40 * kMs);
  EXPECT_EQ(batch_tokens(), 1024u);
  for (int i = 0; i < 30; ++i) {
    policy->ran({batch_tokens(), 100'000ull * batch_tokens(), choice.slo_ns});
    fill();
  }
  EXPECT_LE(batch_tokens(), 176u);  // two batches of 160 tokens take four fifths of the objective
  EXPECT_GE(batch_tokens(), 112u);
}

// With 10 ms a batch and 0.1 ms a token, its request takes 15 ms alone. The objective is 60 ms: its
// own, or the implied one. The flood's batches then take at most 24 ms. Now and then aimd tries one
// request more, which takes 25 ms.
TEST_F(DynamicBatchingTest, ALightTenantDoesNotWaitForAFlood) {
  expected = LinearCost(10 * kMs, 0.1 * kMs);
  undisturbed = &expected;
  EXPECT_LE(longest_wait_in_a_flood("fair", 0), 39 * kMs);
  EXPECT_LE(longest_wait_in_a_flood("fair", 60 * kMs), 40 * kMs);
  EXPECT_LE(longest_wait_in_a_flood("fcfs", 60 * kMs), 40 * kMs);
  EXPECT_GT(longest_wait_in_a_flood("fcfs", 0), 150 * kMs);
}

// The flood itself slows the machine, so the expected cost must not move the bound.
TEST_F(DynamicBatchingTest, TheImpliedBoundFollowsTheUndisturbedCost) {
  const LinearCost quiet(10 * kMs, 0.1 * kMs);
  undisturbed = &quiet;
  expected = LinearCost(100 * kMs, kMs);
  uint32_t most_tokens = 0;
  for (uint64_t now_ns = kMs; now_ns < 100 * kMs; now_ns += kMs) {
    while (policy->queue().num_requests() < 100) push({.tokens = 50, .at_ns = now_ns});
    if (now_ns == 50 * kMs) push({.slot = 1, .tokens = 50, .at_ns = now_ns});
    choose(now_ns);
    if (now_ns > 50 * kMs) most_tokens = std::max(most_tokens, batch_tokens());
  }
  EXPECT_EQ(most_tokens, 100u);  // two requests: 140 tokens take 24 ms
}

// 1,000 tokens take 20 ms, of which 10 ms are the fixed cost.
struct KnownEfficiency final : BatchCost {
  double batch_ns(uint32_t num_tokens) const noexcept override { return 1e7 + 1e4 * num_tokens; }
  uint32_t tokens_within(uint64_t ns) const noexcept override {
    return static_cast<uint32_t>(std::max(0.0, (static_cast<double>(ns) - 1e7) / 1e4));
  }
  uint32_t efficient_tokens(uint32_t) const noexcept override { return 1000; }
};

// A quiet tenant sends a request every 40 ms beside a flood. Its request takes 10.5 ms alone, so
// that its implied objective allows the flood batches of 16.8 ms, and its own batches would take a
// quarter of the time.
TEST_F(DynamicBatchingTest, AQuietTenantDoesNotMakeBatchesInefficient) {
  const KnownEfficiency cost;
  undisturbed = &cost;
  expected = LinearCost(10 * kMs, 0.01 * kMs);
  uint64_t now_ns = kMs, next_ns = 2000 * kMs, small_ns = 0, longest_wait_ns = 0;
  while (now_ns < 10'000 * kMs) {
    while (policy->queue().num_requests() < 200) push({.tokens = 50, .at_ns = now_ns});
    if (now_ns >= next_ns) push({.slot = 1, .tokens = 50, .at_ns = next_ns});
    if (now_ns >= next_ns) next_ns += 40 * kMs;
    choose(now_ns);
    const auto execute_ns = static_cast<uint64_t>(cost.batch_ns(batch_tokens()));
    if (batch_tokens() < 1000) small_ns += execute_ns;
    for (const request::Request* r : choice.batch)
      if (r->slot == 1) longest_wait_ns = std::max(longest_wait_ns, now_ns - r->complete_ns);
    now_ns += execute_ns;
    policy->ran({batch_tokens(), execute_ns, choice.slo_ns});
  }
  EXPECT_GT(small_ns, 100 * kMs);  // some are allowed: 3 % of the time
  EXPECT_LT(small_ns, 400 * kMs);
  EXPECT_LE(longest_wait_ns, 45 * kMs);  // two batches, since the order alone chooses every second
}

}  // namespace
}  // namespace itif::sched
