// Tenants whose weights are the same bytes run in one GEMM.
#include <gtest/gtest.h>

#include "base/random.h"
#include "support/shared_gemms.h"

namespace itif::runtime {
namespace {

using testing::TestRequest;

// Tenants of slots 0 to 4: two heads over the base, a third tenant of its own, and two of equal
// weights.
class EqualTenants : public SharedGemms {
 protected:
  EqualTenants() {
    serve({{},
           {.tuned_layers = {0, 1, 2, 3}, .seed = 2},
           {.seed = 3},
           {.tuned_layers = {1}, .seed = 4},
           {.seed = 5}});
  }
};

TEST_F(EqualTenants, TenantsOfEqualWeightsRunInOneGemm) {
  std::vector<TestRequest> inputs;
  for (const uint32_t slot : {4, 1, 0, 3, 2, 0})
    inputs.push_back({.slot = slot, .ids = {1, 5, 130}});
  run(inputs);
  // Slots 0, 2 and 4 have four of the six requests. Slot 3 differs from them in layer 1 only.
  const uint32_t base = weight_slot(0), tuned = weight_slot(1), other = weight_slot(3);
  ASSERT_EQ(gemms_.size(), kGemmsOfLayer * kLayers);
  for (size_t i = 0; i < gemms_.size(); ++i) {
    if (i / kGemmsOfLayer == 1)
      EXPECT_EQ(gemms_[i], (Ranges{{12, base}, {3, other}, {3, tuned}})) << i;
    else
      EXPECT_EQ(gemms_[i], (Ranges{{15, base}, {3, tuned}})) << i;
  }
  EXPECT_EQ(figures_.num_tenants, 5u) << "reports count tenants";
}

// Planned calls equal executed calls, of any planner, where tenants of different weight slots have
// different weights.
TEST_F(EqualTenants, EveryPlannerPlansThemAsOneTenant) {
  Random random(3);
  for (const char* name : {"packed", "naive", "turbo", "itif", "joint", "concat", "slotted"}) {
    use(name);
    const auto planner = make_planner(name);
    for (int round = 0; round < 10; ++round) {
      std::vector<TestRequest> inputs(2 + random.below(9));
      for (TestRequest& input : inputs)
        input = {.slot = static_cast<uint32_t>(random.below(5)), .ids = {1, 5, 130}};
      run(inputs);
      std::vector<plan::Item> items;
      for (const TestRequest& input : inputs) items.push_back(item_of(input));
      plan::Plan plan;
      planner->plan(items, plan);
      ASSERT_EQ(plan.passes.size(), 1u);
      Ranges planned;
      for (const plan::MiniBatch& batch : plan.mini_batches)
        planned.emplace_back(batch.num_rows, batch.slot);
      for (size_t i = kGemmsOfLayer; i < 2 * kGemmsOfLayer; ++i) {
        ASSERT_EQ(gemms_[i], planned) << name;
        if (plan.has_fixed_calls) {
          ASSERT_EQ(calls_[i].size(), plan.calls.size()) << name;
        }
      }
    }
  }
}

// A batch keeps the weights that it runs on while another holder leaves.
TEST_F(EqualTenants, AHolderThatLeavesKeepsTheOthersGemm) {
  group_->release(0);
  run({{.slot = 2, .ids = {1, 5, 130}}, {.slot = 4, .ids = {1, 5, 130}}});
  for (const Ranges& ranges : gemms_) EXPECT_EQ(ranges.size(), 1u);
  // Slot 0 now names other weights than the slot that its first tenant shared.
  const std::string other = make({.tuned_layers = {0}, .seed = 20});
  directories_[0] = other;
  ASSERT_EQ(admit(other), 0u);
  run({{.slot = 0, .ids = {1, 5, 130}}, {.slot = 4, .ids = {1, 5, 130}}});
  for (size_t i = 0; i < gemms_.size(); ++i)
    EXPECT_EQ(gemms_[i].size(), i < kGemmsOfLayer ? 2u : 1u) << i;
}

}  // namespace
}  // namespace itif::runtime
