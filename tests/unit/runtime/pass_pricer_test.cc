// Predicted against executed cost: a device whose operators take as long on a virtual clock as a
// model of two threads says. The profile, the planners, the pricer and the whole executor run on
// it.
#include "runtime/cost/pass_pricer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"
#include "plan/make_planner.h"
#include "runtime/batch/executor.h"
#include "runtime/cost/profiler.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

constexpr uint32_t kThreads = 2;
constexpr plan::PlanLimits kPricedLimits{.max_requests = 16, .max_rows = 200};
constexpr double kStartNs = 300;     // of a call on all threads
constexpr double kProductNs = 0.01;  // on one thread
constexpr double kSplitRows = 16;    // of each task beyond one per range
constexpr double kRowNs = 40;        // of a row in LayerNorm

double range_ns(const kernels::GroupedGemm& gemm, const kernels::RowRange& range) {
  return kStartNs + kProductNs * range.num_rows * gemm.n * gemm.k / kThreads;
}

// Tasks as the host's runner cuts them, the longest first, each to the thread that is free first.
// A split range reads its weights again, which a profile finds in the cache.
double concurrent_ns(const kernels::GroupedGemm& gemm, std::span<const kernels::RowRange> ranges,
                     bool is_profile) {
  device::GemmPartitioner partitioner(kThreads);
  partitioner.add(ranges);
  const uint32_t task_rows = partitioner.partition().task_rows;
  std::vector<double> tasks;
  for (const kernels::RowRange& range : ranges)
    for (uint32_t row = 0; row < range.num_rows; row += task_rows) {
      const uint32_t rows = std::min(task_rows, range.num_rows - row);
      const double again = row > 0 && !is_profile ? kSplitRows : 0;
      tasks.push_back(kProductNs * (rows + again) * gemm.n * gemm.k);
    }
  std::ranges::sort(tasks, std::greater());
  double threads[kThreads] = {};
  for (const double task : tasks) *std::ranges::min_element(threads) += task;
  return kStartNs + *std::ranges::max_element(threads);
}

class PassPricerTest : public ::testing::Test, protected CompletionSink {
 protected:
  PassPricerTest() {
    device_.state().on_gemm = [&](const kernels::GroupedGemm& gemm) { run(gemm); };
    device_.state().on_operator = [&](const kernels::Operator& op) {
      const auto* norm = std::get_if<const kernels::ResidualLayerNorm*>(&op);
      if (norm) spend((*norm)->ranges.back().first_row + (*norm)->ranges.back().num_rows);
    };
    executor_ = GroupExecutor::create(*small_.group, *small_.stream, clock_,
                                      {.limits = {.max_tokens = 200, .max_requests = 16}})
                    .value();
    Profiler profiler(device_, clock_, small_.group->gemms(), "tiny",
                      {.max_rows = kPricedLimits.max_rows,
                       .max_length = 41,
                       .max_requests = kPricedLimits.max_requests,
                       .max_tenants = 5,
                       .samples = 1,
                       .launch_pass = small_.group->profiled_work().launch_pass});
    while (profiler.step(*small_.stream)) {
    }
    is_profile_ = false;
    tables_ = std::make_shared<plan::CostTables>(profiler.finish().value());
    small_.group->set_costs(tables_);
    pricer_ = std::make_shared<PassPricer>(device_.info(), kPricedLimits, tables_,
                                           small_.group->pass_weights());
  }

  void complete(std::span<request::Request* const>) noexcept override {}
  void spend(uint32_t rows) { clock_.advance_ns(static_cast<uint64_t>(kRowNs * rows)); }
  void run(const kernels::GroupedGemm& gemm) {
    double ns = 0;
    auto next = gemm.ranges.begin();
    for (const kernels::GemmCall& call : gemm.schedule.calls()) {
      const std::span<const kernels::RowRange> ranges(next, next + call.num_ranges);
      ns +=
          ranges.size() > 1 ? concurrent_ns(gemm, ranges, is_profile_) : range_ns(gemm, ranges[0]);
      next += call.num_ranges;
    }
    if (gemm.schedule.calls().empty()) {
      if (gemm.schedule.mode_of(gemm.n, gemm.k) == kernels::GemmMode::kConcurrent)
        ns = concurrent_ns(gemm, gemm.ranges, is_profile_);
      else
        for (const kernels::RowRange& range : gemm.ranges) ns += range_ns(gemm, range);
    }
    clock_.advance_ns(static_cast<uint64_t>(ns));
  }

  std::unique_ptr<plan::Planner> make(const char* name) {
    return plan::make_planner(name,
                              {.limits = kPricedLimits, .tables = tables_.get(), .pricer = pricer_})
        .value();
  }
  double executed_ns(const std::vector<testing::TestRequest>& inputs) {
    testing::TestBatch batch(inputs);
    const uint64_t before_ns = clock_.now_ns();
    for (request::Request& request : batch.requests()) executor_->submit(&request);
    BatchFigures figures;
    while (executor_->num_queued() > 0 || executor_->num_executing() > 0)
      executor_->step(*this, figures);
    for (const testing::Answer& answer : batch.answers()) EXPECT_TRUE(answer.ok()) << answer.detail;
    return static_cast<double>(clock_.now_ns() - before_ns);
  }

  testing::PlainDevice device_{kThreads};
  testing::SmallGroup small_{device_};
  VirtualClock clock_;
  std::unique_ptr<GroupExecutor> executor_;
  bool is_profile_ = true;
  std::shared_ptr<plan::CostTables> tables_;
  std::shared_ptr<PassPricer> pricer_;
};

std::vector<testing::TestRequest> unequal_inputs(Random& random) {
  std::vector<testing::TestRequest> inputs(2 + random.below(12));
  for (testing::TestRequest& input : inputs) {
    input.slot = static_cast<uint32_t>(random.below(5));
    input.ids.resize(1 + random.below(40), 7);
  }
  return inputs;
}

std::vector<plan::Item> items_of(const std::vector<testing::TestRequest>& inputs) {
  std::vector<plan::Item> items;
  for (const testing::TestRequest& input : inputs)
    items.push_back({input.slot, static_cast<uint32_t>(input.ids.size())});
  return items;
}

TEST_F(PassPricerTest, PredictsWhatBatchesOfUnequalRangesTake) {
  Random random(6);
  for (const char* name : {"packed", "naive", "turbo", "itif", "joint"}) {
    executor_->planner().replace(make(name));
    const auto planner = make(name);
    double log_error = 0, worst = 0;
    constexpr int kBatches = 60;
    for (int i = 0; i < kBatches; ++i) {
      const std::vector<testing::TestRequest> inputs = unequal_inputs(random);
      plan::Plan plan;
      planner->plan(items_of(inputs), plan);
      const double ratio = pricer_->price_ns(plan) / executed_ns(inputs);
      log_error += std::log(ratio);
      worst = std::max(worst, std::abs(std::log(ratio)));
    }
    EXPECT_LT(std::abs(log_error / kBatches), 0.05) << name;
    EXPECT_LT(worst, 0.25) << name;
  }
}

// A pass that is not replayed as a graph takes as long as its launches.
TEST_F(PassPricerTest, PlannedCallsAndLargePassesPayForTheirLaunches) {
  constexpr double kLaunchNs = 1e9;
  tables_->launch_ns = kLaunchNs;
  pricer_ = std::make_shared<PassPricer>(device_.info(), kPricedLimits, tables_, nullptr,
                                         GraphBuckets(100, 0));
  const auto price = [&](const char* planner, uint32_t num_tokens) {
    plan::Plan plan;
    make(planner)->plan(std::vector<plan::Item>(3, {.slot = 1, .num_tokens = num_tokens}), plan);
    EXPECT_EQ(plan.passes.size(), 1u);
    return pricer_->price_ns(plan);
  };
  EXPECT_LT(price("packed", 32), kLaunchNs);
  EXPECT_EQ(price("packed", 33), kLaunchNs);
  EXPECT_EQ(price("itif", 32), kLaunchNs);
  plan::Plan plan;
  make("auto")->plan(std::vector<plan::Item>(3, {.slot = 1, .num_tokens = 32}), plan);
  EXPECT_EQ(plan.offers[plan.chosen_offer].planner, "packed");

  // A replayed pass runs calls by pointers. A larger one does not.
  for (plan::SharedGemm& gemm : tables_->shared_gemms)
    gemm.pointers_ns = std::vector<double>(gemm.sequential_ns.size(), 1e12);
  EXPECT_GT(price("packed", 32), kLaunchNs);
  EXPECT_EQ(price("packed", 33), kLaunchNs);
}

TEST_F(PassPricerTest, PlannedCallsOverlapOnStreams) {
  std::ranges::fill(tables_->other_row_ns, 1e-9);
  plan::Plan plan;
  make("itif")->plan(std::vector<plan::Item>{{0, 5}, {1, 20}, {2, 41}}, plan);
  ASSERT_EQ(plan.passes.size(), 1u);
  const double one_after_another = pricer_->price_ns(plan);
  for (plan::SharedGemm& gemm : tables_->shared_gemms) {
    gemm.streams_ns = gemm.sequential_ns;
    for (double& ns : gemm.streams_ns) ns /= 2;
  }
  const double on_streams = PassPricer(device_.info(), kPricedLimits, tables_).price_ns(plan);
  EXPECT_NEAR(on_streams, one_after_another / 2, one_after_another / 1000);
}

TEST_F(PassPricerTest, AutoTakesThePlanThatRunsShortest) {
  Random random(7);
  const char* const fixed[] = {"packed", "turbo", "itif", "joint"};
  std::vector<double> total(std::size(fixed));
  double best_each = 0, chosen_total = 0;
  std::map<std::string_view, int> chosen;
  const auto automatic = make("auto");
  for (int i = 0; i < 60; ++i) {
    const std::vector<testing::TestRequest> inputs = unequal_inputs(random);
    double least = 1e18;
    for (size_t p = 0; p < std::size(fixed); ++p) {
      executor_->planner().replace(make(fixed[p]));
      const double ns = executed_ns(inputs);
      total[p] += ns;
      least = std::min(least, ns);
    }
    best_each += least;
    plan::Plan plan;
    automatic->plan(items_of(inputs), plan);
    ASSERT_EQ(plan.offers.size(), 4u);
    for (const plan::Offer& offer : plan.offers)
      EXPECT_GE(offer.price_ns, plan.offers[plan.chosen_offer].price_ns);
    EXPECT_EQ(pricer_->price_ns(plan), plan.offers[plan.chosen_offer].price_ns);
    ++chosen[plan.offers[plan.chosen_offer].planner];
    executor_->planner().replace(make("auto"));
    chosen_total += executed_ns(inputs);
  }
  EXPECT_LE(chosen_total, 1.01 * best_each);
  EXPECT_LE(chosen_total, 1.02 * *std::ranges::min_element(total));
  EXPECT_GE(chosen.size(), 2u) << "one planner is the best for every batch";
}

}  // namespace
}  // namespace itif::runtime
