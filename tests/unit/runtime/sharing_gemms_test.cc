// Tenants whose weights are the same bytes run in one GEMM.
#include <gtest/gtest.h>

#include "base/random.h"
#include "plan/make_planner.h"
#include "runtime/batch/executor.h"
#include "support/sharing.h"

namespace itif::runtime {
namespace {

using testing::TestRequest;

// Runs requests of slots 0 to 4 as one batch, and returns the ranges of each GEMM.
class SharedGemms : public Sharing, protected CompletionSink {
 protected:
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;  // rows and weight slot

  SharedGemms() {
    tables_.device = tables_.backbone = "test";
    tables_.lengths = {1, 64};
    tables_.batches = tables_.sizes = {1, 16};
    tables_.counts = {2, 16};
    tables_.gemm_ns = {3e6, 5e6, 9e6, 1e8};
    tables_.batched_gemm_ns = {4e6, 4e7, 4e7, 4e8, 2e7, 2e8, 2e8, 2e9};
    // Two heads over the base, a third tenant of its own, and two of equal weights.
    const std::vector<Variant> variants = {{},
                                           {.tuned_layers = {0, 1, 2, 3}, .seed = 2},
                                           {.seed = 3},
                                           {.tuned_layers = {1}, .seed = 4},
                                           {.seed = 5}};
    for (const Variant& variant : variants) directories_.push_back(make(variant));
    for (const std::string& directory : directories_) admit(directory);
    stream_ = device_.make_stream(group_->stream_limits()).value();
    executor_ = GroupExecutor::create(*group_, *stream_, clock_,
                                      {.limits = {.max_tokens = 200, .max_requests = 16}})
                    .value();
  }
  void complete(std::span<request::Request* const>) noexcept override {}

  void run(const std::vector<TestRequest>& inputs) {
    testing::TestBatch batch(inputs);
    gemms_.clear();
    device_.state().planned_gemms.clear();
    device_.state().gemms.clear();
    device_.state().on_gemm = [this](const kernels::GroupedGemm& gemm) {
      Ranges& ranges = gemms_.emplace_back();
      for (const kernels::RowRange& range : gemm.ranges)
        ranges.emplace_back(range.num_rows, range.slot);
    };
    for (request::Request& request : batch.requests()) executor_->submit(&request);
    BatchFigures figures;
    while (executor_->num_queued() > 0 || executor_->num_executing() > 0)
      executor_->step(*this, figures);
    figures_ = figures;
    device_.state().on_gemm = nullptr;
    const std::vector<testing::Answer> answers = batch.answers();
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
      ASSERT_EQ(answers[i].bytes, alone(directories_[inputs[i].slot])) << inputs[i].slot;
    }
  }

  plan::CostTables tables_;
  std::vector<std::string> directories_;
  std::unique_ptr<device::Stream> stream_;
  VirtualClock clock_;
  std::unique_ptr<GroupExecutor> executor_;
  std::vector<Ranges> gemms_;
  BatchFigures figures_;
};

TEST_F(SharedGemms, TenantsOfEqualWeightsRunInOneGemm) {
  std::vector<TestRequest> inputs;
  for (const uint32_t slot : {4, 1, 0, 3, 2, 0})
    inputs.push_back({.slot = slot, .ids = {1, 5, 130}});
  run(inputs);
  // Slots 0, 2 and 4 have four of the six requests.
  ASSERT_EQ(gemms_.size(), 4 * kLayers);
  for (const Ranges& ranges : gemms_) {
    ASSERT_EQ(ranges.size(), 3u);
    EXPECT_EQ(ranges[0], (std::pair{12u, group_->model(0)->weight_slot}));
    EXPECT_EQ(ranges[1], (std::pair{3u, group_->model(1)->weight_slot}));
    EXPECT_EQ(ranges[2], (std::pair{3u, group_->model(3)->weight_slot}));
  }
  EXPECT_EQ(figures_.num_tenants, 5u) << "reports count tenants";
}

// Planned calls equal executed calls, of any planner.
TEST_F(SharedGemms, EveryPlannerPlansThemAsOneTenant) {
  constexpr plan::PlanLimits kLimits{.max_requests = 16, .max_rows = 200};
  Random random(3);
  for (const char* name : {"packed", "naive", "turbo", "itif", "joint", "concat", "slotted"}) {
    executor_->planner().replace(
        plan::make_planner(name, {.limits = kLimits, .tables = &tables_}).value());
    const auto planner = plan::make_planner(name, {.limits = kLimits, .tables = &tables_}).value();
    for (int round = 0; round < 10; ++round) {
      std::vector<TestRequest> inputs(2 + random.below(9));
      for (TestRequest& input : inputs)
        input = {.slot = static_cast<uint32_t>(random.below(5)), .ids = {1, 5, 130}};
      run(inputs);
      std::vector<plan::Item> items;
      for (const TestRequest& input : inputs)
        items.push_back({group_->model(input.slot)->weight_slot, 3});
      plan::Plan plan;
      planner->plan(items, plan);
      ASSERT_EQ(plan.passes.size(), 1u);
      Ranges planned;
      for (const plan::MiniBatch& batch : plan.mini_batches)
        planned.emplace_back(batch.num_rows, batch.slot);
      for (const Ranges& ranges : gemms_) ASSERT_EQ(ranges, planned) << name;
      for (const testing::PlannedGemm& gemm : device_.state().planned_gemms)
        ASSERT_EQ(gemm.calls.size(), plan.calls.size()) << name;
    }
  }
}

// A batch keeps the weights that it runs on while another holder leaves.
TEST_F(SharedGemms, AHolderThatLeavesKeepsTheOthersGemm) {
  group_->release(0);
  run({{.slot = 2, .ids = {1, 5, 130}}, {.slot = 4, .ids = {1, 5, 130}}});
  for (const Ranges& ranges : gemms_) EXPECT_EQ(ranges.size(), 1u);
  // Slot 0 now names other weights than the slot that its first tenant shared.
  const std::string other = make({.tuned_layers = {0}, .seed = 20});
  directories_[0] = other;
  ASSERT_EQ(admit(other), 0u);
  run({{.slot = 0, .ids = {1, 5, 130}}, {.slot = 4, .ids = {1, 5, 130}}});
  for (const Ranges& ranges : gemms_) EXPECT_EQ(ranges.size(), 2u);
}

}  // namespace
}  // namespace itif::runtime
