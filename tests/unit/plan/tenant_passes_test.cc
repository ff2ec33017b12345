// PlanLimits::max_pass_tenants and max_shared_tokens, with every planner.
#include "plan/tenant_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"
#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/row_pricer.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

constexpr const char* kPlanners[] = {"packed", "naive", "turbo", "itif", "joint", "auto"};

class TenantPassesTest : public ::testing::Test {
 protected:
  // A BatchedGEMM costs little more than a GEMM, so that itif and joint merge tenants if they may.
  TenantPassesTest()
      : tables_(full_tables(
            {8, 32, 128}, 16, [](uint32_t l, uint32_t b) { return 4000.0 + 100.0 * l * b; },
            [](uint32_t l, uint32_t c, uint32_t s) { return 4500.0 + 100.0 * l * c * s; })) {}

  static PlanLimits limits(uint32_t max_pass_tenants, uint32_t max_shared_tokens = 0) {
    return {.max_requests = 24,
            .max_rows = 512,
            .max_pass_tenants = max_pass_tenants,
            .max_shared_tokens = max_shared_tokens};
  }
  Plan plan(const char* planner, uint32_t max_pass_tenants, const std::vector<Item>& items) {
    return plan(planner, limits(max_pass_tenants), items);
  }
  Plan plan(const char* planner, const PlanLimits& limits, const std::vector<Item>& items) {
    Plan plan;
    make_planner(planner,
                 {.limits = limits, .tables = &tables_, .pricer = std::make_shared<RowPricer>()})
        .value()
        ->plan(items, plan);
    return plan;
  }
  std::vector<Item> random_items() {
    std::vector<Item> items(1 + random_.below(24));
    for (Item& item : items)
      item = {static_cast<uint32_t>(random_.below(6)),
              1 + static_cast<uint32_t>(random_.below(128))};
    return items;
  }
  // Returns the tenants in the order of their first items.
  static std::vector<uint32_t> tenants_of(const std::vector<Item>& items) {
    std::vector<uint32_t> slots;
    for (const Item& item : items)
      if (std::ranges::find(slots, item.slot) == slots.end()) slots.push_back(item.slot);
    return slots;
  }

  const CostTables tables_;
  Random random_{5};
};

TEST_F(TenantPassesTest, NoPassHasMoreTenants) {
  for (const char* planner : kPlanners)
    for (const uint32_t most : {1u, 2u, 4u})
      for (int round = 0; round < 100; ++round) {
        const std::vector<Item> items = random_items();
        const Plan planned = plan(planner, most, items);
        const Status status = verify(planned, items, limits(most));
        ASSERT_TRUE(status) << planner << ": " << status.error().message;
      }
}

TEST_F(TenantPassesTest, TenantsFollowInTheOrderOfTheirFirstItems) {
  for (const char* planner : kPlanners)
    for (int round = 0; round < 100; ++round) {
      const std::vector<Item> items = random_items();
      std::vector<uint32_t> slots;
      for (const MiniBatch& batch : plan(planner, 1, items).mini_batches)
        if (slots.empty() || slots.back() != batch.slot) slots.push_back(batch.slot);
      EXPECT_EQ(slots, tenants_of(items)) << planner;
    }
}

// One tenant per pass: each part of the plan is what the planner makes of the tenant alone.
TEST_F(TenantPassesTest, EachPartIsPlannedAsIfAlone) {
  for (const char* planner : {"packed", "naive", "turbo", "itif", "joint"})
    for (int round = 0; round < 100; ++round) {
      const std::vector<Item> items = random_items();
      const Plan all = plan(planner, 1, items);
      double cost_ns = 0;
      size_t num_passes = 0, num_calls = 0;
      uint64_t num_rows = 0;
      bool has_fixed_calls = false;
      for (const uint32_t slot : tenants_of(items)) {
        std::vector<Item> own;
        std::ranges::copy_if(items, std::back_inserter(own),
                             [&](const Item& item) { return item.slot == slot; });
        const Plan alone = plan(planner, 0, own);
        cost_ns += alone.cost_ns;
        num_passes += alone.passes.size();
        num_calls += alone.calls.size();
        num_rows += alone.num_rows;
        has_fixed_calls = alone.has_fixed_calls;
      }
      EXPECT_DOUBLE_EQ(all.cost_ns, cost_ns) << planner;
      EXPECT_EQ(all.passes.size(), num_passes) << planner;
      EXPECT_EQ(all.calls.size(), num_calls) << planner;
      EXPECT_EQ(all.num_rows, num_rows) << planner;
      EXPECT_EQ(all.has_fixed_calls, has_fixed_calls) << planner;
    }
}

TEST_F(TenantPassesTest, ABatchOfFewTenantsIsOnePass) {
  const std::vector<Item> items = {{7, 5}, {3, 9}, {7, 1}};
  EXPECT_EQ(plan("packed", 2, items).passes.size(), 1u);
  EXPECT_EQ(plan("packed", 1, items).passes.size(), 2u);
  EXPECT_EQ(plan("packed", 0, items).passes.size(), 1u);
}

TEST_F(TenantPassesTest, NoPassOfSeveralTenantsHasMoreTokens) {
  for (const char* planner : kPlanners)
    for (const uint32_t most : {1u, 100u, 300u})
      for (const uint32_t tenants : {0u, 2u}) {
        const std::vector<Item> items = random_items();
        const Status status =
            verify(plan(planner, limits(tenants, most), items), items, limits(tenants, most));
        ASSERT_TRUE(status) << planner << ": " << status.error().message;
      }
}

// Tenants join a pass in order, as long as their tokens fit. A tenant alone may have more.
TEST_F(TenantPassesTest, APassTakesTheTenantsWhoseTokensFit) {
  const std::vector<Item> items = {{4, 30}, {2, 60}, {4, 20}, {1, 10}, {7, 120}, {7, 20}, {0, 5}};
  const Plan planned = plan("packed", limits(0, 110), items);
  std::vector<uint32_t> rows;
  for (const Pass& pass : planned.passes) rows.push_back(pass.num_rows);
  EXPECT_EQ(rows, (std::vector<uint32_t>{110, 10, 140, 5}));
  EXPECT_EQ(plan("packed", limits(0, 500), items).passes.size(), 1u);
  EXPECT_EQ(plan("packed", limits(1, 500), items).passes.size(), 5u);
}

// Rows that share scores are a pass's own matter: concat fills them with several tenants.
TEST_F(TenantPassesTest, RowsWithSharedScoresMayHaveMoreTokens) {
  const std::vector<Item> items = {{0, 50}, {1, 50}, {2, 50}};
  const Plan planned = plan("concat:row_tokens=200", limits(0, 60), items);
  EXPECT_EQ(planned.passes.size(), 1u);
  EXPECT_TRUE(verify(planned, items, limits(0, 60)));
}

TEST_F(TenantPassesTest, AutoStillNamesThePlannersThatItCompared) {
  const Plan planned = plan("auto", 1, random_items());
  ASSERT_EQ(planned.offers.size(), Plan::kMaxOffers);
  EXPECT_EQ(planned.offers[0].planner, "packed");
}

TEST_F(TenantPassesTest, VerifyFindsATenantTooMany) {
  const std::vector<Item> items = {{0, 5}, {1, 9}};
  const Status status = verify(plan("packed", 0, items), items, limits(1));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("2 tenants where 1 are allowed"), std::string::npos);
}

TEST_F(TenantPassesTest, VerifyFindsATokenTooMany) {
  const std::vector<Item> items = {{0, 5}, {1, 9}};
  const Plan planned = plan("packed", 0, items);
  EXPECT_TRUE(verify(planned, items, limits(0, 14)));
  const Status status = verify(planned, items, limits(0, 13));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("14 tokens of several tenants where 13 are allowed"),
            std::string::npos);
}

}  // namespace
}  // namespace itif::plan
