#include "plan/packed.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "plan/make_planner.h"
#include "plan/verify.h"

namespace itif::plan {
namespace {

TEST(Packed, GroupsTenantsAndKeepsArrivalOrderWithin) {
  const std::vector<Item> items = {{2, 5}, {0, 3}, {2, 1}, {1, 4}, {0, 2}};
  std::vector<Segment> segments;
  plan_packed(items, segments);
  ASSERT_EQ(segments.size(), 5u);
  const uint32_t order[] = {1, 4, 3, 0, 2};
  const uint32_t rows[] = {0, 3, 5, 9, 14};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(segments[i].item, order[i]);
    EXPECT_EQ(segments[i].first_row, rows[i]);
  }
}

TEST(Packed, RandomBatchesAreAPermutationWithoutGapOrPadding) {
  Random random(11);
  std::vector<Segment> segments;
  for (int round = 0; round < 500; ++round) {
    std::vector<Item> items(random.below(40));
    uint32_t total = 0;
    for (Item& item : items) {
      item = {static_cast<uint32_t>(random.below(5)), 1 + static_cast<uint32_t>(random.below(9))};
      total += item.num_tokens;
    }
    plan_packed(items, segments);
    ASSERT_EQ(segments.size(), items.size());
    std::vector<bool> seen(items.size());
    uint32_t row = 0, slot = 0;
    for (const Segment& s : segments) {
      EXPECT_FALSE(seen[s.item]);
      seen[s.item] = true;
      EXPECT_EQ(s.num_rows, items[s.item].num_tokens);
      EXPECT_EQ(s.slot, items[s.item].slot);
      EXPECT_EQ(s.first_row, row);
      EXPECT_GE(s.slot, slot);
      row += s.num_rows;
      slot = s.slot;
    }
    EXPECT_EQ(row, total);
  }
}

TEST(Packed, PlansOneGemmPerTenantWithoutPadding) {
  const auto planner = *make_planner("packed", {});
  const std::vector<Item> items = {{2, 5}, {0, 3}, {2, 1}, {1, 4}, {0, 2}};
  Plan plan;
  planner->plan(items, plan);
  const Status status = verify(plan, items, {});
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(plan.passes.size(), 1u);
  ASSERT_EQ(plan.calls.size(), 3u);
  const uint32_t rows[] = {5, 4, 6}, first_rows[] = {0, 5, 9}, segments[] = {2, 1, 2};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(plan.calls[i].batched());
    EXPECT_EQ(plan.mini_batches[i].slot, i);
    EXPECT_EQ(plan.mini_batches[i].num_rows, rows[i]);
    EXPECT_EQ(plan.mini_batches[i].first_row, first_rows[i]);
    EXPECT_EQ(plan.mini_batches[i].num_segments, segments[i]);
  }
  EXPECT_EQ(plan.num_rows, 15u);
  EXPECT_EQ(plan.num_tokens, 15u);
}

TEST(Packed, SplitsIntoPassesWhenTokensExceedTheWorkspace) {
  const PlanLimits limits{.max_requests = 8, .max_rows = 10};
  const auto planner = *make_planner("packed", {.limits = limits});
  const std::vector<Item> items = {{0, 4}, {0, 4}, {0, 4}, {1, 6}, {1, 10}};
  Plan plan;
  planner->plan(items, plan);
  const Status status = verify(plan, items, limits);
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(plan.passes.size(), 3u);
  const uint32_t rows[] = {8, 10, 10}, calls[] = {1, 2, 1};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.passes[i].num_rows, rows[i]);
    EXPECT_EQ(plan.passes[i].num_calls, calls[i]);
  }
}

}  // namespace
}  // namespace itif::plan
