// Compares the dynamic programme of one tenant with all divisions of all small batches.
#include <gtest/gtest.h>

#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/exhaustive.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

std::unique_ptr<Planner> turbo(const CostTables& tables, const PlanLimits& limits) {
  auto planner = make_planner("turbo", {.limits = limits, .tables = &tables});
  EXPECT_TRUE(planner);
  return std::move(*planner);
}

double min_cost(const CostTables& tables, const std::vector<Item>& items, uint32_t max_rows,
                bool consecutive) {
  double cost = 0;
  for (uint32_t slot = 0; slot < 4; ++slot) {
    std::vector<uint32_t> lengths;
    for (const Item& item : items)
      if (item.slot == slot) lengths.push_back(item.num_tokens);
    if (!lengths.empty()) cost += least_tenant_cost(tables, lengths, max_rows, consecutive);
  }
  return cost;
}

void expect_optimal(uint32_t max_requests, const std::vector<uint32_t>& lengths,
                    uint32_t num_tenants, uint32_t max_rows) {
  for (const NamedTables& named : many_tables(lengths, max_requests)) {
    const PlanLimits limits{.max_requests = max_requests, .max_rows = max_rows};
    const auto planner = turbo(named.tables, limits);
    Plan plan;
    for_each_batch(max_requests, lengths, num_tenants, [&](const std::vector<Item>& items) {
      if (testing::Test::HasFailure()) return;
      planner->plan(items, plan);
      const Status status = verify(plan, items, limits);
      ASSERT_TRUE(status) << named.name << ": " << status.error().message;
      // Compares with all divisions if costs grow with length, else only with runs of neighbours.
      const double least = min_cost(named.tables, items, max_rows, !named.monotone);
      ASSERT_NEAR(plan.cost_ns, least, 1e-9 * least) << named.name;
      ASSERT_NEAR(cost_of(named.tables, plan), least, 1e-9 * least) << named.name;
    });
  }
}

TEST(Turbo, IsOptimalOnEverySmallBatchOfOneTenant) {
  expect_optimal(8, {1, 3, 7, 16}, 1, 1000);
}

TEST(Turbo, IsOptimalOnEverySmallBatchOfThreeTenants) {
  expect_optimal(6, {1, 3, 7, 16}, 3, 1000);
}

TEST(Turbo, IsOptimalWithinTheWorkspace) {
  expect_optimal(6, {1, 3, 7, 16}, 1, 16);
  expect_optimal(6, {1, 3, 7, 16}, 1, 29);
}

// The thesis's own example (Figure 3.2: tenant A's 33 and 41 make one mini-batch).
TEST(Turbo, SimilarLengthsShareAMiniBatch) {
  const CostTables tables = full_tables(
      {33, 41, 120, 128}, 4, [](uint32_t l, uint32_t b) { return 100.0 + l * b; }, nullptr);
  const auto planner = turbo(tables, {});
  const std::vector<Item> items = {{0, 120}, {0, 33}, {0, 128}, {0, 41}};
  Plan plan;
  planner->plan(items, plan);
  ASSERT_EQ(plan.mini_batches.size(), 2u);
  const uint32_t order[] = {1, 3, 0, 2}, rows[] = {0, 41, 82, 210}, padded[] = {41, 41, 128, 128};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(plan.segments[i].item, order[i]);
    EXPECT_EQ(plan.segments[i].first_row, rows[i]);
    EXPECT_EQ(plan.segments[i].num_rows, padded[i]);
  }
  EXPECT_EQ(plan.num_rows, 338u);
  EXPECT_EQ(plan.num_tokens, 322u);
  EXPECT_DOUBLE_EQ(plan.cost_ns, 200 + 338);
}

TEST(Turbo, KeepsTenantsInOrderAndTheirMiniBatchesByLength) {
  const CostTables tables = full_tables(
      {4, 9}, 4, [](uint32_t l, uint32_t b) { return 0.1 + l * b; }, nullptr);
  const auto planner = turbo(tables, {});
  const std::vector<Item> items = {{1, 9}, {0, 9}, {1, 4}, {0, 4}};
  Plan plan;
  planner->plan(items, plan);
  ASSERT_EQ(plan.segments.size(), 4u);
  const uint32_t order[] = {3, 1, 2, 0};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(plan.segments[i].item, order[i]);
}

TEST(Turbo, NeverMergesTenants) {
  const CostTables tables = full_tables(
      {8}, 4, [](uint32_t, uint32_t) { return 100.0; },
      [](uint32_t, uint32_t, uint32_t) { return 0.001; });
  const auto planner = turbo(tables, {});
  const std::vector<Item> items = {{0, 8}, {1, 8}, {2, 8}, {3, 8}};
  Plan plan;
  planner->plan(items, plan);
  EXPECT_EQ(plan.calls.size(), 4u);
  for (const Call& call : plan.calls) EXPECT_FALSE(call.batched());
}

}  // namespace
}  // namespace itif::plan
