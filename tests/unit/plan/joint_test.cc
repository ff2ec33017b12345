// Compares the joint planner with all plans of small batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/exhaustive.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

// The planner's time is a share of its batch's. Batches of the tests' tables would end at once.
CostTables slow(CostTables tables) {
  for (auto* costs : {&tables.gemm_ns, &tables.batched_gemm_ns})
    for (double& cost : *costs) cost *= 1e6;
  return tables;
}

struct Compared {
  size_t batches = 0, better_than_itif = 0;
  double sum_of_ratios = 0, largest_ratio = 0;  // itif's cost to the least
};

void compare(const NamedTables& named, const PlanLimits& limits, const std::vector<Item>& items,
             LeastPlanCost& min_cost, Planner& joint, Planner& itif, Compared& compared) {
  Plan plan, greedy;
  joint.plan(items, plan);
  const Status status = verify(plan, items, limits);
  ASSERT_TRUE(status) << named.name << ": " << status.error().message;
  const double least = min_cost.of(items);
  ASSERT_NEAR(plan.cost_ns, least, 1e-9 * least) << named.name;
  ASSERT_NEAR(cost_of(named.tables, plan), least, 1e-9 * least) << named.name;
  itif.plan(items, greedy);
  const double ratio = greedy.cost_ns / least;
  ++compared.batches;
  compared.better_than_itif += ratio > 1 + 1e-9;
  compared.sum_of_ratios += ratio;
  compared.largest_ratio = std::max(compared.largest_ratio, ratio);
}

TEST(Joint, IsTheOptimumOfRandomBatches) {
  constexpr uint32_t kMaxRequests = 7;
  const std::vector<uint32_t> lengths = {1, 3, 7, 16, 20};
  Compared all;
  for (const uint32_t max_rows : {1000u, 40u, 20u}) {
    const PlanLimits limits{.max_requests = kMaxRequests, .max_rows = max_rows};
    for (NamedTables& named : many_tables(lengths, kMaxRequests)) {
      // Else neither planner looks at all divisions.
      if (!named.monotone) continue;
      named.tables = slow(named.tables);
      const PlannerOptions options{.limits = limits, .tables = &named.tables};
      const auto joint = *make_planner("joint", options), itif = *make_planner("itif", options);
      LeastPlanCost min_cost(named.tables, max_rows);
      Random random(max_rows);
      for (int round = 0; round < 300 && !HasFailure(); ++round) {
        std::vector<Item> items(1 + random.below(kMaxRequests));
        const uint64_t tenants = 1 + random.below(4);
        for (Item& item : items)
          item = {static_cast<uint32_t>(random.below(tenants)),
                  lengths[random.below(lengths.size())]};
        compare(named, limits, items, min_cost, *joint, *itif, all);
      }
    }
  }
  EXPECT_GT(all.batches, 5000u);
  // Otherwise the test would prove little.
  EXPECT_GT(all.better_than_itif, 500u);
  RecordProperty("mean_ratio_of_itif", std::to_string(all.sum_of_ratios / all.batches));
  RecordProperty("largest_ratio_of_itif", std::to_string(all.largest_ratio));
}

// Two tenants whose own optimal divisions differ share no call. Divided alike, they share one.
TEST(Joint, DividesTenantsAlikeToShareACall) {
  CostTables tables = slow(full_tables(
      {1, 16}, 8, [](uint32_t l, uint32_t b) { return 12.0 + l * b; },
      [](uint32_t l, uint32_t c, uint32_t s) { return 12.0 + l * c * s; }));
  const PlannerOptions options{.limits = {.max_requests = 8, .max_rows = 1000}, .tables = &tables};
  const std::vector<Item> items = {{0, 1}, {0, 1}, {0, 16}, {1, 16}, {1, 16}};
  Plan itif, joint;
  (*make_planner("itif", options))->plan(items, itif);
  (*make_planner("joint", options))->plan(items, joint);
  EXPECT_LT(joint.cost_ns, itif.cost_ns);
}

// A batch that ends quickly leaves no time for a search.
TEST(Joint, IsNeverWorseThanItifWithoutTimeToSearch) {
  for (const NamedTables& named : many_tables({1, 3, 7, 16}, 16)) {
    const PlannerOptions options{.limits = {.max_requests = 16, .max_rows = 64},
                                 .tables = &named.tables};
    const auto joint = *make_planner("joint", options), itif = *make_planner("itif", options),
               naive = *make_planner("naive", options), turbo = *make_planner("turbo", options);
    Random random(2);
    for (int round = 0; round < 100; ++round) {
      std::vector<Item> items(1 + random.below(16));
      for (Item& item : items)
        item = {static_cast<uint32_t>(random.below(5)),
                std::vector<uint32_t>{1, 3, 7, 16}[random.below(4)]};
      Plan plan, other;
      joint->plan(items, plan);
      ASSERT_TRUE(verify(plan, items, options.limits));
      for (Planner* simpler : {itif.get(), naive.get(), turbo.get()}) {
        simpler->plan(items, other);
        ASSERT_LE(plan.cost_ns, other.cost_ns * (1 + 1e-9)) << named.name;
      }
    }
  }
}

}  // namespace
}  // namespace itif::plan
