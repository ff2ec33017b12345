// The device runs the GEMM calls that a planner decides: Algorithm 2's result, not only its layout.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "plan/make_planner.h"
#include "runtime/batch/executor.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using Ranges = std::vector<std::vector<std::pair<uint32_t, uint32_t>>>;  // rows and slot, by call

constexpr plan::PlanLimits kLimits{.max_requests = 16, .max_rows = 200};

// A launch costs as much as 30 rows, and a batched one hardly more.
plan::CostTables launch_bound() {
  plan::CostTables tables;
  tables.device = tables.backbone = "test";
  tables.lengths = {1, 64};
  tables.batches = tables.sizes = {1, 16};
  tables.counts = {2, 16};
  for (const double length : {1, 64}) {
    for (const double batch : {1, 16}) tables.gemm_ns.push_back(3e6 + 1e5 * length * batch);
    for (const double count : {2, 16})
      for (const double size : {1, 16})
        tables.batched_gemm_ns.push_back(3.2e6 + 1e5 * length * count * size);
  }
  return tables;
}

class PlannedCalls : public ::testing::Test, protected CompletionSink {
 protected:
  PlannedCalls() {
    executor_ = GroupExecutor::create(*small_.group, *small_.stream, clock_,
                                      {.limits = {.max_tokens = 200, .max_requests = 16}})
                    .value();
  }
  void complete(std::span<request::Request* const>) noexcept override {}

  void use(const char* planner) {
    executor_->planner().replace(
        plan::make_planner(planner, {.limits = kLimits, .tables = &tables_}).value());
  }
  // Runs the inputs as one batch.
  void run(const std::vector<testing::TestRequest>& inputs) {
    testing::TestBatch batch(inputs);
    device_.state().planned_gemms.clear();
    device_.state().gemms.clear();
    for (request::Request& request : batch.requests()) executor_->submit(&request);
    BatchFigures figures;
    while (executor_->num_queued() > 0 || executor_->num_executing() > 0)
      executor_->step(*this, figures);
    for (const testing::Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok()) << answer.detail;
  }

  plan::CostTables tables_ = launch_bound();
  testing::PlainDevice device_{2};
  testing::SmallGroup small_{device_};
  VirtualClock clock_;
  std::unique_ptr<GroupExecutor> executor_;
};

std::vector<testing::TestRequest> random_inputs(Random& random) {
  std::vector<testing::TestRequest> inputs(2 + random.below(9));
  for (testing::TestRequest& input : inputs) {
    input.slot = static_cast<uint32_t>(random.below(5));
    input.ids.resize(1 + random.below(30), 7);
  }
  return inputs;
}

// The calls of the plan, pass by pass.
std::vector<Ranges> planned(plan::Planner& planner,
                            const std::vector<testing::TestRequest>& inputs) {
  std::vector<plan::Item> items;
  for (const testing::TestRequest& input : inputs)
    items.push_back({input.slot, static_cast<uint32_t>(input.ids.size())});
  plan::Plan plan;
  planner.plan(items, plan);
  std::vector<Ranges> passes;
  for (const plan::Pass& pass : plan.passes) {
    Ranges& calls = passes.emplace_back();
    for (uint32_t c = pass.first_call; c < pass.first_call + pass.num_calls; ++c) {
      const plan::Call& call = plan.calls[c];
      auto& ranges = calls.emplace_back();
      for (uint32_t m = 0; m < call.num_mini_batches; ++m) {
        const plan::MiniBatch& batch = plan.mini_batches[call.first_mini_batch + m];
        ranges.emplace_back(batch.num_rows, batch.slot);
      }
    }
  }
  return passes;
}

Ranges launched(const testing::PlannedGemm& gemm) {
  Ranges calls;
  for (const auto& call : gemm.calls) {
    auto& ranges = calls.emplace_back();
    for (const kernels::RowRange& range : call) ranges.emplace_back(range.num_rows, range.slot);
  }
  return calls;
}

TEST_F(PlannedCalls, EveryGemmOfABatchRunsThePlansCalls) {
  Random random(4);
  size_t batched = 0, passes_run = 0;
  for (const char* name : {"naive", "turbo", "itif", "joint"}) {
    use(name);
    const auto planner = plan::make_planner(name, {.limits = kLimits, .tables = &tables_}).value();
    for (int round = 0; round < 20; ++round) {
      const std::vector<testing::TestRequest> inputs = random_inputs(random);
      run(inputs);
      const std::vector<Ranges> passes = planned(*planner, inputs);
      const std::vector<testing::PlannedGemm>& gemms = device_.state().planned_gemms;
      ASSERT_EQ(gemms.size(), device_.state().gemms.size()) << "every GEMM is planned";
      ASSERT_EQ(gemms.size() % passes.size(), 0u);
      const size_t each = gemms.size() / passes.size();
      EXPECT_GE(each, 8u) << "two layers of four GEMMs";
      for (size_t i = 0; i < gemms.size(); ++i)
        ASSERT_EQ(launched(gemms[i]), passes[i / each]) << name << ", GEMM " << i;
      for (const auto& call : passes[0]) batched += call.size() > 1;
      passes_run += passes.size();
    }
  }
  EXPECT_GT(batched, 20u);
  EXPECT_GT(passes_run, 80u) << "some batches take several passes";
}

// packed leaves the calls to the GEMM scheduler.
TEST_F(PlannedCalls, PackedPlansNone) {
  use("packed");
  Random random(5);
  run(random_inputs(random));
  EXPECT_TRUE(device_.state().planned_gemms.empty());
  EXPECT_FALSE(device_.state().gemms.empty());
}

// A request that cannot run leaves its call; the others keep theirs.
TEST_F(PlannedCalls, ARefusedRequestLeavesItsCall) {
  testing::TestBatch test_batch({{.slot = 0, .ids = {1, 2, 3}},
                                 {.slot = 1, .ids = {1, 2, 3}},
                                 {.slot = 5, .ids = {1, 2, 3}},  // no tenant
                                 {.slot = 2, .ids = {1, 2}},
                                 {.slot = 5, .ids = {1}}});
  for (uint32_t i = 0; i < 5; ++i) {
    test_batch.segments()[i].mini_batch = i;
    test_batch.segments()[i].call = i < 3 ? 0 : i - 2;
  }
  const std::vector<plan::Call> calls(3);
  runtime::Batch batch = test_batch.batch();
  batch.calls = calls;
  ASSERT_TRUE(small_.group->forward(*small_.stream, batch));
  const std::vector<testing::Answer> answers = test_batch.answers();
  for (size_t i : {0u, 1u, 3u}) EXPECT_TRUE(answers[i].ok()) << i;
  for (size_t i : {2u, 4u}) EXPECT_EQ(answers[i].status, wire::StatusCode::kNotAdmitted) << i;
  for (const testing::PlannedGemm& gemm : device_.state().planned_gemms)
    EXPECT_EQ(launched(gemm), (Ranges{{{3, 0}, {3, 1}}, {{2, 2}}}));
}

}  // namespace
}  // namespace itif::runtime
