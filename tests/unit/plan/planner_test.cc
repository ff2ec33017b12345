// Invariants of every planner, on random batches far too large for an exhaustive search.
#include "plan/make_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "plan/verify.h"
#include "support/row_pricer.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

const char* const kNames[] = {"packed", "naive", "turbo", "itif", "joint", "auto"};

// Tables with few buckets, as those of a device: lengths and counts in between are interpolated.
CostTables coarse_tables() {
  CostTables tables;
  tables.device = "a device";
  tables.backbone = "a backbone";
  tables.lengths = {8, 32, 128};
  tables.batches = {1, 4, 16};
  tables.counts = {2, 8};
  tables.sizes = {1, 4};
  for (const uint32_t length : tables.lengths) {
    for (const uint32_t batch : tables.batches)
      tables.gemm_ns.push_back(5000.0 + 200.0 * length * batch);
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes)
        tables.batched_gemm_ns.push_back(6000.0 + 190.0 * length * count * size);
  }
  return tables;
}

std::vector<Item> random_items(Random& random, uint32_t most, uint32_t tenants, uint32_t longest) {
  std::vector<Item> items(random.below(most + 1));
  for (Item& item : items)
    item = {static_cast<uint32_t>(random.below(tenants)),
            1 + static_cast<uint32_t>(random.below(longest))};
  return items;
}

std::shared_ptr<PlanPricer> row_pricer() {
  return std::make_shared<RowPricer>();
}

bool same(const Plan& a, const Plan& b) {
  const auto bytes = [](const auto& v) {
    return std::string_view(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
  };
  return bytes(a.segments) == bytes(b.segments) && bytes(a.mini_batches) == bytes(b.mini_batches) &&
         bytes(a.calls) == bytes(b.calls) && bytes(a.passes) == bytes(b.passes) &&
         a.num_rows == b.num_rows && a.num_tokens == b.num_tokens && a.cost_ns == b.cost_ns;
}

TEST(Planners, RandomBatchesKeepEveryInvariantAndLimit) {
  const CostTables tables = coarse_tables();
  for (const char* name : kNames) {
    Random random(3);
    for (const uint32_t max_rows : {200u, 1000u, 100000u}) {
      const PlanLimits limits{.max_requests = 64, .max_rows = max_rows};
      const auto planner =
          *make_planner(name, {.limits = limits, .tables = &tables, .pricer = row_pricer()});
      Plan plan;
      for (int round = 0; round < 300; ++round) {
        const uint32_t tenants = 1 + static_cast<uint32_t>(random.below(10));
        const std::vector<Item> items = random_items(random, 64, tenants, 200);
        planner->plan(items, plan);
        const Status status = verify(plan, items, limits);
        ASSERT_TRUE(status) << name << ": " << status.error().message;
      }
    }
  }
}

TEST(Planners, AreNeverWorseThanSimplerPlanners) {
  CostTables noisy = coarse_tables();
  Random random(5);
  for (double& cost : noisy.gemm_ns) cost *= 0.3 + random.uniform();
  for (double& cost : noisy.batched_gemm_ns) cost *= 0.3 + random.uniform();
  for (const CostTables& tables : {coarse_tables(), noisy}) {
    for (const uint32_t max_rows : {400u, 100000u}) {
      const PlannerOptions options{.limits = {.max_requests = 64, .max_rows = max_rows},
                                   .tables = &tables,
                                   .pricer = row_pricer()};
      const auto naive = *make_planner("naive", options), turbo = *make_planner("turbo", options),
                 itif = *make_planner("itif", options);
      Plan padded, one, both;
      for (int round = 0; round < 500; ++round) {
        const uint32_t tenants = 1 + static_cast<uint32_t>(random.below(8));
        const std::vector<Item> items = random_items(random, 64, tenants, 128);
        naive->plan(items, padded);
        turbo->plan(items, one);
        itif->plan(items, both);
        ASSERT_LE(both.cost_ns, padded.cost_ns * (1 + 1e-12));
        ASSERT_LE(both.cost_ns, one.cost_ns * (1 + 1e-12));
        // Turbo is never worse than naive only if costs grow with length.
        if (tables == noisy) continue;
        ASSERT_LE(one.cost_ns, padded.cost_ns * (1 + 1e-12));
      }
    }
  }
}

TEST(Planners, TheSameBatchGivesTheSamePlan) {
  const CostTables tables = coarse_tables();
  for (const char* name : kNames) {
    const PlannerOptions options{.limits = {.max_requests = 64, .max_rows = 2000},
                                 .tables = &tables,
                                 .pricer = row_pricer()};
    const auto used = *make_planner(name, options);
    Random random(9);
    Plan first, second;
    for (int round = 0; round < 200; ++round) {
      const std::vector<Item> items = random_items(random, 64, 5, 128);
      const auto fresh = *make_planner(name, options);
      fresh->plan(items, first);
      used->plan(items, second);
      ASSERT_TRUE(same(first, second)) << name;
    }
  }
}

// An order of tenants changes their places and nothing else: the plan is that of slots in this
// order.
TEST(Planners, TenantsFollowTheOrderThatItemsGive) {
  constexpr uint32_t kTenants = 6;
  const CostTables tables = coarse_tables();
  for (const char* name :
       {"packed", "naive", "turbo", "itif", "joint", "auto", "concat", "slotted"})
    for (const uint32_t max_pass_tenants : {0u, 2u}) {
      const PlanLimits limits{
          .max_requests = 64, .max_rows = 2000, .max_pass_tenants = max_pass_tenants};
      const auto planner =
          *make_planner(name, {.limits = limits, .tables = &tables, .pricer = row_pricer()});
      Random random(10);
      Plan ordered, renamed;
      for (int round = 0; round < 100; ++round) {
        std::array<uint32_t, kTenants> place;
        for (uint32_t i = 0; i < kTenants; ++i) place[i] = i;
        for (uint32_t i = kTenants; i > 1; --i) std::swap(place[i - 1], place[random.below(i)]);
        std::vector<Item> items = random_items(random, 40, kTenants, 60);
        std::vector<Item> by_place = items;
        for (size_t i = 0; i < items.size(); ++i)
          items[i].order = by_place[i].slot = place[items[i].slot];
        planner->plan(items, ordered);
        planner->plan(by_place, renamed);
        EXPECT_TRUE(verify(ordered, items, limits)) << name;
        for (Segment& segment : ordered.segments) segment.slot = place[segment.slot];
        for (MiniBatch& batch : ordered.mini_batches) batch.slot = place[batch.slot];
        ASSERT_TRUE(same(ordered, renamed)) << name;
      }
    }
}

// The order of arrival may change the position of requests, but not the cost of the batch.
TEST(Planners, TheOrderOfArrivalDoesNotChangeTheShape) {
  const CostTables tables = coarse_tables();
  for (const char* name : kNames) {
    const auto planner = *make_planner(name, {.tables = &tables, .pricer = row_pricer()});
    Random random(11);
    Plan first, second;
    for (int round = 0; round < 200; ++round) {
      std::vector<Item> items = random_items(random, 40, 4, 60);
      planner->plan(items, first);
      for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
      planner->plan(items, second);
      EXPECT_EQ(first.cost_ns, second.cost_ns) << name;
      EXPECT_EQ(first.num_rows, second.num_rows) << name;
      ASSERT_EQ(first.mini_batches.size(), second.mini_batches.size()) << name;
      for (size_t i = 0; i < first.mini_batches.size(); ++i) {
        EXPECT_EQ(first.mini_batches[i].slot, second.mini_batches[i].slot);
        EXPECT_EQ(first.mini_batches[i].num_rows, second.mini_batches[i].num_rows);
      }
    }
  }
}

TEST(Planners, AcceptTheLargestAndTheEmptyBatch) {
  const CostTables tables = coarse_tables();
  const PlanLimits limits{.max_requests = 300, .max_rows = 1u << 20};
  for (const char* name : kNames) {
    const auto planner =
        *make_planner(name, {.limits = limits, .tables = &tables, .pricer = row_pricer()});
    Plan plan;
    std::vector<Item> items(300);
    for (uint32_t i = 0; i < 300; ++i) items[i] = {(1u << 24) - 1 - i % 3, 1 + i % 200};
    planner->plan(items, plan);
    const Status status = verify(plan, items, limits);
    EXPECT_TRUE(status) << name << ": " << status.error().message;
    planner->plan({}, plan);
    EXPECT_TRUE(plan.segments.empty() && plan.mini_batches.empty() && plan.calls.empty() &&
                plan.passes.empty())
        << name;
    EXPECT_EQ(plan.num_rows, 0u);
    EXPECT_EQ(plan.cost_ns, 0);
  }
}

TEST(PlannersDeath, RequestsBeyondTheLimitsAbort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const CostTables tables = coarse_tables();
  for (const char* name : kNames) {
    const auto planner = *make_planner(name, {.limits = {.max_requests = 2, .max_rows = 100},
                                              .tables = &tables,
                                              .pricer = row_pricer()});
    Plan plan;
    const std::vector<Item> many(3, {0, 1}), too_long = {{0, 101}};
    EXPECT_DEATH(planner->plan(many, plan), "items.size") << name;
    EXPECT_DEATH(planner->plan(too_long, plan), "max_rows") << name;
  }
}

TEST(MakePlanner, KnowsItsNames) {
  const CostTables tables = coarse_tables();
  for (const char* name : kNames) {
    EXPECT_TRUE(make_planner(name, {.tables = &tables, .pricer = row_pricer()})) << name;
    EXPECT_NE(planner_names().find(name), std::string::npos);
    EXPECT_EQ(make_planner(name, {}).has_value(), !needs_cost_tables(name)) << name;
  }
  const auto unknown = make_planner("best", {.tables = &tables, .pricer = row_pricer()});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("packed, naive, turbo, itif"), std::string::npos);
  EXPECT_FALSE(needs_cost_tables("best"));
}

TEST(MakePlanner, RefusesImpossibleLimitsAndTables) {
  const CostTables tables = coarse_tables();
  for (const char* name : kNames) {
    for (const PlanLimits limits : {PlanLimits{0, 100}, PlanLimits{1u << 17, 100},
                                    PlanLimits{16, 0}, PlanLimits{16, 1u << 24}}) {
      const auto planner =
          make_planner(name, {.limits = limits, .tables = &tables, .pricer = row_pricer()});
      ASSERT_FALSE(planner) << name;
      EXPECT_EQ(planner.error().code, Code::kInvalidArgument);
    }
    CostTables broken = tables;
    broken.gemm_ns.pop_back();
    EXPECT_FALSE(make_planner(name, {.tables = &broken, .pricer = row_pricer()})) << name;
  }
  const PlanLimits many{.max_requests = kMaxPaddedRequests + 1, .max_rows = 4096};
  EXPECT_FALSE(make_planner("itif", {.limits = many, .tables = &tables, .pricer = row_pricer()}));
  EXPECT_TRUE(make_planner("packed", {.limits = many}));
}

}  // namespace
}  // namespace itif::plan
