// verify() must find every kind of fault in a plan.
#include "plan/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "plan/make_planner.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

TEST(Verify, FindsEachFault) {
  const CostTables tables = full_tables(
      {8, 64}, 4, [](uint32_t l, uint32_t b) { return 20.0 + l * b; },
      [](uint32_t l, uint32_t c, uint32_t s) { return 25.0 + 1.0 * l * c * s; });
  const PlanLimits limits{.max_requests = 8, .max_rows = 144};
  const std::vector<Item> items = {{0, 8}, {1, 7}, {0, 64}, {1, 60}, {2, 64}};
  const auto planner = *make_planner("itif", {.limits = limits, .tables = &tables});
  Plan plan;
  planner->plan(items, plan);
  ASSERT_TRUE(verify(plan, items, limits));
  ASSERT_GE(plan.passes.size(), 2u);
  ASSERT_TRUE(
      std::any_of(plan.calls.begin(), plan.calls.end(), [](const Call& c) { return c.batched(); }));

  const std::vector<std::function<void(Plan&)>> faults = {
      [](Plan& p) { p.segments.pop_back(); },
      [](Plan& p) { p.segments[1].item = p.segments[0].item; },
      [](Plan& p) { p.segments[1].item = 99; },
      [](Plan& p) { ++p.segments[0].slot; },
      [](Plan& p) { ++p.segments[0].num_tokens; },
      [](Plan& p) { p.segments[0].num_rows = 1; },
      [](Plan& p) { ++p.segments.back().num_rows; },
      [](Plan& p) { ++p.segments.back().first_row; },
      [](Plan& p) { ++p.mini_batches[0].slot; },
      [](Plan& p) { ++p.mini_batches[1].first_row; },
      [](Plan& p) { --p.mini_batches[0].num_rows; },
      [](Plan& p) { ++p.mini_batches[1].first_segment; },
      [](Plan& p) { p.mini_batches.back().num_segments = 0; },
      [](Plan& p) { p.mini_batches.back().num_segments = 1000; },
      [](Plan& p) { p.mini_batches.push_back({}); },
      [](Plan& p) { ++p.calls[0].num_rows; },
      [](Plan& p) { p.calls[0].first_mini_batch = 1; },
      [](Plan& p) { p.calls.back().num_mini_batches = 0; },
      [](Plan& p) { p.calls.back().num_mini_batches = 1000; },
      [](Plan& p) { p.calls.push_back({}); },
      [](Plan& p) { ++p.passes[0].num_rows; },
      [](Plan& p) { ++p.passes[0].num_segments; },
      [](Plan& p) { ++p.passes[0].num_mini_batches; },
      [](Plan& p) { ++p.passes[1].first_call; },
      [](Plan& p) { ++p.passes[1].first_segment; },
      [](Plan& p) { ++p.passes[1].first_mini_batch; },
      [](Plan& p) { p.passes.back().num_calls = 0; },
      [](Plan& p) { p.passes.back().num_calls = 1000; },
      [](Plan& p) { p.passes.pop_back(); },
      [](Plan& p) { ++p.num_rows; },
      [](Plan& p) { ++p.num_tokens; },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    Plan broken = plan;
    faults[i](broken);
    EXPECT_FALSE(verify(broken, items, limits)) << "fault " << i;
  }
  EXPECT_FALSE(verify(plan, items, {.max_requests = 4, .max_rows = 144}));
  EXPECT_FALSE(verify(plan, items, {.max_requests = 8, .max_rows = 100}));
}

// Equal row counts are not equal shapes: 2 × 6 and 3 × 4 rows cannot share a BatchedGEMM.
TEST(Verify, ABatchedCallNeedsOneShape) {
  const std::vector<Item> items = {{0, 6}, {0, 6}, {1, 4}, {1, 4}, {1, 4}};
  Plan plan;
  plan.segments = {
      {0, 0, 0, 6, 6}, {1, 0, 6, 6, 6}, {2, 1, 12, 4, 4}, {3, 1, 16, 4, 4}, {4, 1, 20, 4, 4}};
  plan.mini_batches = {{0, 0, 12, 0, 2}, {1, 12, 12, 2, 3}};
  plan.passes = {{0, 2, 0, 2, 0, 5, 24}};
  plan.num_rows = plan.num_tokens = 24;
  plan.calls = {{0, 1, 12}, {1, 1, 12}};
  ASSERT_TRUE(verify(plan, items, {}));
  plan.calls = {{0, 2, 12}};
  plan.passes[0].num_calls = 1;
  EXPECT_FALSE(verify(plan, items, {}));
}

}  // namespace
}  // namespace itif::plan
