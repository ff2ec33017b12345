// Compares both planning stages with all divisions of all small batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/exhaustive.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

struct Planners {
  Planners(const CostTables& tables, const PlanLimits& limits) {
    const PlannerOptions options{.limits = limits, .tables = &tables};
    turbo = *make_planner("turbo", options);
    itif = *make_planner("itif", options);
  }
  std::unique_ptr<Planner> turbo, itif;
};

// The first stage yields turbo's mini-batches, which turbo_test.cc proves optimal. The second stage
// is compared with an exhaustive search over those.
void expect_optimal(uint32_t max_requests, const std::vector<uint32_t>& lengths,
                    uint32_t num_tenants, uint32_t max_rows) {
  size_t batched_calls = 0;
  for (const NamedTables& named : many_tables(lengths, max_requests)) {
    const PlanLimits limits{.max_requests = max_requests, .max_rows = max_rows};
    const Planners planners(named.tables, limits);
    Plan turbo, plan;
    for_each_batch(max_requests, lengths, num_tenants, [&](const std::vector<Item>& items) {
      if (testing::Test::HasFailure()) return;
      planners.turbo->plan(items, turbo);
      planners.itif->plan(items, plan);
      const Status status = verify(plan, items, limits);
      ASSERT_TRUE(status) << named.name << ": " << status.error().message;
      const bool consecutive = !named.monotone;
      const double least =
          least_call_cost(named.tables, mini_batch_shapes(turbo), max_rows, consecutive);
      ASSERT_NEAR(plan.cost_ns, least, 1e-9 * least) << named.name;
      ASSERT_NEAR(cost_of(named.tables, plan), least, 1e-9 * least) << named.name;
      ASSERT_LE(plan.cost_ns, turbo.cost_ns * (1 + 1e-12)) << named.name;
      for (const Call& call : plan.calls) batched_calls += call.batched();
    });
  }
  // Otherwise the test would prove little.
  EXPECT_GT(batched_calls, 1000u);
}

TEST(Itif, IsOptimalOnEverySmallBatchOfTwoTenants) {
  expect_optimal(6, {1, 3, 7, 16}, 2, 1000);
}

TEST(Itif, IsOptimalOnEverySmallBatchOfThreeTenants) {
  expect_optimal(6, {1, 3, 16}, 3, 1000);
  expect_optimal(5, {1, 3, 7, 16}, 3, 1000);
}

TEST(Itif, IsOptimalWithinTheWorkspace) {
  expect_optimal(5, {1, 3, 7, 16}, 3, 16);
  expect_optimal(6, {1, 3, 7}, 3, 15);
}

CostTables gpu_like(const std::vector<uint32_t>& lengths, uint32_t max_requests) {
  return full_tables(
      lengths, max_requests, [](uint32_t l, uint32_t b) { return 100.0 + l * b; },
      [](uint32_t l, uint32_t c, uint32_t s) { return 110.0 + 1.0 * l * c * s; });
}

TEST(Itif, EqualShapesOfTenantsShareABatchedGemm) {
  const CostTables tables = gpu_like({16, 64}, 8);
  const Planners planners(tables, {});
  const std::vector<Item> items = {{0, 64}, {1, 64}, {2, 64}, {0, 64}, {1, 64}, {2, 64}};
  Plan plan;
  planners.itif->plan(items, plan);
  ASSERT_EQ(plan.calls.size(), 1u);
  EXPECT_EQ(plan.calls[0].num_mini_batches, 3u);
  EXPECT_EQ(plan.calls[0].num_rows, 128u);
  EXPECT_DOUBLE_EQ(plan.cost_ns, 110 + 6 * 64);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(plan.mini_batches[slot].slot, slot);
}

// ITIF section 3.3.1: in the second stage, too, "zero-padding is added for the short requests".
TEST(Itif, PadsShorterMiniBatchesIntoACallWhereThatIsCheaper) {
  const CostTables tables = gpu_like({60, 64}, 4);
  const Planners planners(tables, {});
  const std::vector<Item> items = {{0, 60}, {1, 64}};
  Plan plan;
  planners.itif->plan(items, plan);
  ASSERT_EQ(plan.calls.size(), 1u);
  EXPECT_EQ(plan.num_rows, 128u);
  EXPECT_EQ(plan.num_tokens, 124u);
}

TEST(Itif, KeepsAUniqueShapeAsAGemm) {
  const CostTables tables = gpu_like({16, 512}, 4);
  const Planners planners(tables, {});
  const std::vector<Item> items = {{0, 16}, {1, 512}};
  Plan plan;
  planners.itif->plan(items, plan);
  ASSERT_EQ(plan.calls.size(), 2u);
  EXPECT_EQ(plan.num_rows, 528u);
}

// A call may hold several mini-batches of one tenant if their shapes are equal.
TEST(Itif, ATenantMayOccurTwiceInACall) {
  const CostTables tables = full_tables(
      {8}, 4, [](uint32_t, uint32_t b) { return b == 2 ? 2.0 : 100.0 * b; },
      [](uint32_t, uint32_t, uint32_t) { return 3.0; });
  const Planners planners(tables, {});
  const std::vector<Item> items = {{5, 8}, {5, 8}, {5, 8}, {5, 8}};
  Plan plan;
  planners.itif->plan(items, plan);
  ASSERT_EQ(plan.calls.size(), 1u);
  EXPECT_EQ(plan.calls[0].num_mini_batches, 2u);
  EXPECT_DOUBLE_EQ(plan.cost_ns, 3);
}

}  // namespace
}  // namespace itif::plan
