// Prices of GEMMs whose weights are equal, as their joined ranges run, and of the updates of
// adapters, by tables made by hand.
#include <gtest/gtest.h>

#include "plan/make_planner.h"
#include "runtime/cost/pass_pricer.h"

namespace itif::runtime {
namespace {

using plan::Item;

constexpr uint32_t kSize = 4;  // of each GEMM
constexpr double kNsPerCall = 1000, kNsPerRow = 10, kNsPerBatchedCall = 1500;
constexpr plan::PlanLimits kJoinedLimits{.max_requests = 8, .max_rows = 1000};

// A GPU on which a BatchedGEMM costs less than two GEMMs and more than one, if its rows are equal.
// A pass has two GEMMs, of a kind each, and nothing else.
plan::CostTables tables_of_two_gemms() {
  plan::CostTables tables;
  tables.device = tables.backbone = "test";
  tables.lengths = {1, 1024};
  tables.batches = {1, 2};
  tables.counts = {2, 4};
  tables.sizes = {1, 2};
  for (const uint32_t length : tables.lengths) {
    for (const uint32_t batch : tables.batches)
      tables.gemm_ns.push_back(2 * (kNsPerCall + kNsPerRow * length * batch));
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes)
        tables.batched_gemm_ns.push_back(2 *
                                         (kNsPerBatchedCall + kNsPerRow * length * count * size));
  }
  tables.range_counts = {1, 2, 4};
  tables.range_rows = {1, 1024};
  plan::SharedGemm gemm{.n = kSize, .k = kSize, .times = 2};
  for (const uint32_t count : tables.range_counts)
    for (const uint32_t rows : tables.range_rows) {
      const double sequential_ns = count * (kNsPerCall + kNsPerRow * rows);
      gemm.sequential_ns.push_back(sequential_ns);
      gemm.concurrent_ns.push_back(count == 1 ? sequential_ns
                                              : kNsPerBatchedCall + kNsPerRow * rows * count);
      gemm.uneven_sequential_ns.push_back(sequential_ns);
      gemm.uneven_concurrent_ns.push_back(2 * sequential_ns);
    }
  tables.shared_gemms = {gemm};
  return tables;
}

// Updates change the first GEMM.
constexpr float kShares[] = {0.5f, 0, 0};

class JoinedPrices : public ::testing::Test {
 protected:
  JoinedPrices() : tables_(std::make_shared<plan::CostTables>(tables_of_two_gemms())) {
    EXPECT_TRUE(plan::validate(*tables_));
    const model::WeightKind matrix{.storage = model::Storage::kMatrix,
                                   .gemm = {.n = kSize, .k = kSize}};
    weights_ = std::make_shared<PassWeights>(
        PassWeights{.view =
                        [this] {
                          return model::WeightView{{}, numbers_};
                        },
                    .kinds = {matrix, {.storage = model::Storage::kVector}, matrix},
                    .update_shares = [](uint32_t) -> std::span<const float> { return kShares; }});
  }
  // `first`, `second`: the numbers of the two weights, by slot.
  void use(const std::vector<uint32_t>& first, const std::vector<uint32_t>& second) {
    first_ = first;
    second_ = second;
    numbers_ = {first_.data(), nullptr, second_.data()};
  }
  std::unique_ptr<plan::Planner> make(const char* name, bool knows_weights = true) {
    return make_group_planner(name, device_, kJoinedLimits, tables_,
                              knows_weights ? weights_ : nullptr)
        .value();
  }
  plan::Plan plan(const char* name, const std::vector<Item>& items, bool knows_weights = true) {
    plan::Plan plan;
    make(name, knows_weights)->plan(items, plan);
    return plan;
  }
  double price(const char* name, const std::vector<Item>& items) {
    return PassPricer(device_, kJoinedLimits, tables_, weights_).price_ns(plan(name, items));
  }

  const device::DeviceInfo device_ = {.num_threads = 0};
  std::shared_ptr<plan::CostTables> tables_;
  std::shared_ptr<const PassWeights> weights_;
  std::vector<uint32_t> first_, second_;
  std::vector<const uint32_t*> numbers_;
};

constexpr double gemm_ns(uint32_t rows) {
  return kNsPerCall + kNsPerRow * rows;
}
const std::vector<Item> kTwoTenants = {{0, 10}, {1, 16}};

TEST_F(JoinedPrices, OneGemmOfEqualWeightsForTheRowsOfAll) {
  for (const char* name : {"packed", "turbo"}) {
    use({0, 1}, {0, 1});
    EXPECT_NEAR(price(name, kTwoTenants), 2 * (gemm_ns(10) + gemm_ns(16)), 1e-6) << name;
    use({0, 1}, {7, 7});
    EXPECT_NEAR(price(name, kTwoTenants), gemm_ns(10) + gemm_ns(16) + gemm_ns(26), 1e-6) << name;
    use({3, 3}, {7, 7});
    EXPECT_NEAR(price(name, kTwoTenants), 2 * gemm_ns(26), 1e-6) << name;
  }
}

// Tenants between two equal ones keep them apart.
TEST_F(JoinedPrices, OnlyNeighboursAreJoined) {
  use({5, 6, 5}, {1, 1, 1});
  EXPECT_NEAR(price("packed", {{0, 10}, {1, 16}, {2, 20}}),
              gemm_ns(10) + gemm_ns(16) + gemm_ns(20) + gemm_ns(46), 1e-6);
}

TEST_F(JoinedPrices, CallsOfOneTenantStayAsPlanned) {
  use({0}, {0});
  plan::Plan calls;
  calls.has_fixed_calls = true;
  calls.segments = {{0, 0, 0, 16, 16}, {1, 0, 16, 16, 16}};
  calls.mini_batches = {{0, 0, 16, 0, 1}, {0, 16, 16, 1, 1}};
  calls.calls = {{0, 1, 16}, {1, 1, 16}};
  calls.passes = {{.num_calls = 2, .num_mini_batches = 2, .num_segments = 2, .num_rows = 32}};
  EXPECT_NEAR(PassPricer(device_, kJoinedLimits, tables_, weights_).price_ns(calls),
              4 * gemm_ns(16), 1e-6);
}

TEST_F(JoinedPrices, AutoTakesPackedForEqualTenants) {
  const auto chosen = [&](bool knows_weights) {
    const plan::Plan made = plan("auto", kTwoTenants, knows_weights);
    return std::string(made.offers[made.chosen_offer].planner);
  };
  use({3, 3}, {7, 7});
  EXPECT_EQ(chosen(false), "itif");
  EXPECT_EQ(chosen(true), "packed");
  use({0, 1}, {2, 3});
  EXPECT_EQ(chosen(true), "itif");
}

TEST_F(JoinedPrices, JointTakesSeparateCallsForEqualTenants) {
  use({0, 1}, {2, 3});
  EXPECT_EQ(plan("joint", kTwoTenants).calls.size(), 1u);
  use({3, 3}, {7, 7});
  EXPECT_EQ(plan("joint", kTwoTenants, false).calls.size(), 1u);
  EXPECT_EQ(plan("joint", kTwoTenants).calls.size(), 2u);
}

Item adapted(uint32_t slot, uint32_t num_tokens, uint32_t adapter) {
  return {.slot = slot, .num_tokens = num_tokens, .adapter = adapter};
}

TEST_F(JoinedPrices, AdjacentRowsOfAnAdapterAreOneUpdate) {
  use({0}, {0});
  const auto updates_ns = [&](const char* name, const std::vector<Item>& items) {
    std::vector<Item> bare = items;
    for (Item& item : bare) item.adapter = plan::kNoAdapter;
    return price(name, items) - price(name, bare);
  };
  EXPECT_NEAR(updates_ns("packed", {adapted(0, 10, 5), adapted(0, 16, 5)}), 0.5 * gemm_ns(26),
              1e-3);
  const double apart_ns = 0.5 * (gemm_ns(10) + gemm_ns(16));
  EXPECT_NEAR(updates_ns("packed", {adapted(0, 10, 5), adapted(0, 16, 6)}), apart_ns, 1e-3);
  EXPECT_NEAR(updates_ns("packed", {adapted(0, 10, 5), {0, 7}, adapted(0, 16, 5)}), apart_ns, 1e-3);
  EXPECT_NEAR(updates_ns("naive", {adapted(0, 10, 5), adapted(0, 16, 5)}), apart_ns, 1e-3)
      << "padding lies between them";
}

TEST_F(JoinedPrices, AutoTakesPackedIfPaddingWouldDivideUpdates) {
  use({0, 1}, {2, 3});
  const auto chosen = [&](const std::vector<Item>& items) {
    const plan::Plan made = plan("auto", items);
    return std::string(made.offers[made.chosen_offer].planner);
  };
  EXPECT_EQ(chosen({{0, 8}, {0, 10}, {1, 9}, {1, 12}}), "itif");
  EXPECT_EQ(chosen({adapted(0, 8, 5), adapted(0, 10, 5), adapted(1, 9, 6), adapted(1, 12, 6)}),
            "packed");
}

}  // namespace
}  // namespace itif::runtime
