// auto: the cheapest plan of four planners, by any pricer.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.h"
#include "plan/make_planner.h"
#include "plan/verify.h"
#include "support/tables.h"

namespace itif::plan {
namespace {

constexpr PlanLimits kAutoLimits{.max_requests = 32, .max_rows = 512};

class PricerOf final : public PlanPricer {
 public:
  explicit PricerOf(std::function<double(const Plan&)> price) : price_(std::move(price)) {}
  double price_ns(const Plan& plan) noexcept override { return price_(plan); }

 private:
  const std::function<double(const Plan&)> price_;
};

class AutoTest : public ::testing::Test {
 protected:
  // A GEMM costs as much as 40 rows, a BatchedGEMM little more.
  AutoTest()
      : tables_(full_tables(
            {8, 32, 128}, 16, [](uint32_t l, uint32_t b) { return 4000.0 + 100.0 * l * b; },
            [](uint32_t l, uint32_t c, uint32_t s) { return 4500.0 + 100.0 * l * c * s; })) {}

  std::unique_ptr<Planner> make(const std::string& name, std::function<double(const Plan&)> price) {
    return make_planner(name, {.limits = kAutoLimits,
                               .tables = &tables_,
                               .pricer = std::make_shared<PricerOf>(std::move(price))})
        .value();
  }
  std::vector<Item> random_items() {
    std::vector<Item> items(1 + random_.below(32));
    for (Item& item : items)
      item = {static_cast<uint32_t>(random_.below(5)),
              1 + static_cast<uint32_t>(random_.below(128))};
    return items;
  }

  const CostTables tables_;
  Random random_{11};
};

TEST_F(AutoTest, TakesTheCheapestOffer) {
  const auto prices = {
      +[](const Plan& plan) { return 1.0 * static_cast<double>(plan.num_rows); },
      +[](const Plan& plan) { return 1.0 * static_cast<double>(plan.calls.size()); },
      +[](const Plan& plan) { return 1e6 - static_cast<double>(plan.num_rows); },
  };
  for (const auto price : prices) {
    const auto automatic = make("auto", price);
    for (int round = 0; round < 100; ++round) {
      const std::vector<Item> items = random_items();
      Plan plan;
      automatic->plan(items, plan);
      const Status status = verify(plan, items, kAutoLimits);
      ASSERT_TRUE(status) << status.error().message;
      ASSERT_EQ(plan.offers.size(), 4u);
      ASSERT_LT(plan.chosen_offer, 4u);
      for (const Offer& offer : plan.offers) {
        Plan alone;
        make(std::string(offer.planner), price)->plan(items, alone);
        EXPECT_EQ(offer.price_ns, price(alone)) << offer.planner;
        EXPECT_GE(offer.price_ns, price(plan)) << offer.planner;
        EXPECT_TRUE(alone.offers.empty());
      }
      EXPECT_EQ(price(plan), plan.offers[plan.chosen_offer].price_ns);
    }
  }
}

TEST_F(AutoTest, PackedWinsTies) {
  const auto automatic = make("auto", [](const Plan&) { return 5.0; });
  const std::vector<Item> items = random_items();
  Plan plan;
  automatic->plan(items, plan);
  EXPECT_EQ(plan.chosen_offer, 0u);
  EXPECT_EQ(plan.offers[0].planner, "packed");
  EXPECT_FALSE(plan.has_fixed_calls);
}

TEST_F(AutoTest, NeedsTablesAndAPricer) {
  EXPECT_TRUE(needs_cost_tables("auto"));
  const auto without = make_planner("auto", {.limits = kAutoLimits, .tables = &tables_});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, Code::kInvalidArgument);
  EXPECT_NE(without.error().message.find("needs a pricer"), std::string::npos);
  EXPECT_FALSE(make_planner("auto", {.limits = kAutoLimits}));
}

// A tenant's calls are neighbours, so that its weights are read in as few passes as possible.
TEST_F(AutoTest, CallsOfATenantFollowEachOther) {
  for (const char* name : {"itif", "joint"}) {
    const auto planner = make(name, [](const Plan&) { return 1.0; });
    for (int round = 0; round < 100; ++round) {
      const std::vector<Item> items = random_items();
      Plan plan;
      planner->plan(items, plan);
      uint32_t last = 0;
      for (const Call& call : plan.calls) {
        const uint32_t slot = plan.mini_batches[call.first_mini_batch].slot;
        EXPECT_GE(slot, last) << name;
        last = slot;
      }
    }
  }
}

}  // namespace
}  // namespace itif::plan
