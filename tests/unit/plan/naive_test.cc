#include <gtest/gtest.h>

#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/exhaustive.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

TEST(Naive, PadsAllToTheLongestAndGivesEachTenantAGemm) {
  const auto planner = *make_planner("naive", {});
  const std::vector<Item> items = {{7, 5}, {2, 9}, {7, 3}, {2, 1}, {4, 2}};
  Plan plan;
  planner->plan(items, plan);
  ASSERT_TRUE(verify(plan, items, {}));
  ASSERT_EQ(plan.calls.size(), 3u);
  ASSERT_EQ(plan.passes.size(), 1u);
  for (const Segment& segment : plan.segments) EXPECT_EQ(segment.num_rows, 9u);
  EXPECT_EQ(plan.num_rows, 45u);
  EXPECT_EQ(plan.num_tokens, 20u);
  const uint32_t slots[] = {2, 4, 7}, rows[] = {18, 9, 18};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.mini_batches[i].slot, slots[i]);
    EXPECT_EQ(plan.mini_batches[i].num_rows, rows[i]);
    EXPECT_FALSE(plan.calls[i].batched());
  }
  EXPECT_EQ(plan.cost_ns, 0);
}

TEST(Naive, PredictsItsCostIfItHasTables) {
  const CostTables tables = full_tables(
      {4, 9}, 4, [](uint32_t l, uint32_t b) { return 100.0 * l + b; }, nullptr);
  const auto planner = *make_planner("naive", {.tables = &tables});
  const std::vector<Item> items = {{0, 4}, {1, 9}, {0, 4}};
  Plan plan;
  planner->plan(items, plan);
  EXPECT_DOUBLE_EQ(plan.cost_ns, 902 + 901);
  EXPECT_DOUBLE_EQ(plan.cost_ns, cost_of(tables, plan));
}

TEST(Naive, SplitsIntoPassesWhenPaddingExceedsTheWorkspace) {
  const PlanLimits limits{.max_requests = 16, .max_rows = 25};
  const auto planner = *make_planner("naive", {.limits = limits});
  // Each request is padded to 10 rows: two requests a pass, and two GEMMs for tenant 0's three.
  const std::vector<Item> items = {{0, 1}, {0, 1}, {0, 1}, {1, 10}};
  Plan plan;
  planner->plan(items, plan);
  const Status status = verify(plan, items, limits);
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(plan.passes.size(), 2u);
  EXPECT_EQ(plan.passes[0].num_rows, 20u);
  EXPECT_EQ(plan.passes[0].num_calls, 1u);
  EXPECT_EQ(plan.passes[1].num_rows, 20u);
  EXPECT_EQ(plan.passes[1].num_calls, 2u);
  EXPECT_EQ(plan.mini_batches[1].first_row, 0u);
  EXPECT_EQ(plan.mini_batches[2].first_row, 10u);
}

}  // namespace
}  // namespace itif::plan
