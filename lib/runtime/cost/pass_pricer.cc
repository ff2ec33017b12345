#include "runtime/cost/pass_pricer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "plan/make_planner.h"
#include "runtime/cost/gemm_scheduler.h"
#include "runtime/graph_buckets.h"

namespace itif::runtime {

PassPricer::PassPricer(const device::DeviceInfo& device, const plan::PlanLimits& limits,
                       std::shared_ptr<const plan::CostTables> tables)
    : parts_(device.num_threads),
      max_bucket_rows_(device.max_bucket_rows),
      tables_(tables),
      costs_(parts_, limits.max_requests, limits.max_rows, tables) {
  CHECK(tables_->serve_planners() && !costs_.gemms().empty());
  ranges_.reserve(limits.max_requests);
}

double PassPricer::price_ns(const plan::Plan& plan) noexcept {
  double ns = 0;
  for (const plan::Pass& pass : plan.passes) {
    const double pass_ns = price_ns(plan, pass);
    ns += has_bucket(plan, pass) ? pass_ns : std::max(pass_ns, tables_->launch_ns);
  }
  return ns;
}

bool PassPricer::has_bucket(const plan::Plan& plan, const plan::Pass& pass) const noexcept {
  return !plan.has_fixed_calls &&
         GraphBuckets::suit(pass.num_rows, pass.num_mini_batches, max_bucket_rows_);
}

double PassPricer::price_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept {
  double ns = 0;
  for (uint32_t s = pass.first_segment; s < pass.first_segment + pass.num_segments; ++s)
    ns += plan.segments[s].num_rows * plan::other_row_ns(*tables_, plan.segments[s].num_rows);
  if (!plan.has_fixed_calls) {
    set_ranges(plan, pass.first_mini_batch, pass.num_mini_batches);
    return ns + (has_bucket(plan, pass) ? bucket_gemms_ns() : gemms_ns());
  }
  return ns + planned_gemms_ns(plan, pass);
}

double PassPricer::planned_gemms_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept {
  using enum kernels::GemmMode;
  const size_t num_shapes = costs_.gemms().size();
  std::array<double, plan::kMaxShapes> by_shape{};
  const std::span calls = std::span(plan.calls).subspan(pass.first_call, pass.num_calls);
  for (const plan::Call& call : calls) {
    set_ranges(plan, call.first_mini_batch, call.num_mini_batches);
    for (size_t shape = 0; shape < num_shapes; ++shape)
      by_shape[shape] += shape_ns(shape, call.batched() ? kConcurrent : kSequential);
  }
  ranges_.clear();
  for (const plan::Call& call : calls)
    ranges_.push_back({.num_rows = call.num_rows * call.num_mini_batches});
  costs_.set(ranges_);
  double ns = 0;
  for (size_t shape = 0; shape < num_shapes; ++shape) {
    const double on_streams = costs_.cost_ns(shape, kStreams) / costs_.cost_ns(shape, kSequential);
    ns += by_shape[shape] * std::min(1.0, on_streams);  // infinite: the device has no streams
  }
  return ns;
}

void PassPricer::set_ranges(const plan::Plan& plan, uint32_t first_mini_batch,
                            uint32_t count) noexcept {
  ranges_.clear();
  for (uint32_t m = first_mini_batch; m < first_mini_batch + count; ++m) {
    const plan::MiniBatch& batch = plan.mini_batches[m];
    ranges_.push_back(
        {.first_row = batch.first_row, .num_rows = batch.num_rows, .slot = batch.slot});
  }
  costs_.set(ranges_);
}

double PassPricer::shape_ns(size_t shape, std::optional<kernels::GemmMode> mode) const noexcept {
  const bool has_choice = ranges_.size() > 1 && parts_ != 1;
  const kernels::GemmMode of_shape = !has_choice ? kernels::GemmMode::kSequential
                                     : mode      ? *mode
                                                 : GemmScheduler::cheapest(costs_, shape);
  return costs_.gemms()[shape].times * costs_.cost_ns(shape, of_shape);
}

double PassPricer::gemms_ns() const noexcept {
  double ns = 0;
  for (size_t shape = 0; shape < costs_.gemms().size(); ++shape)
    ns += shape_ns(shape, std::nullopt);
  return ns;
}

double PassPricer::bucket_gemms_ns() const noexcept {
  double ns = 0;
  const auto gemms = costs_.gemms();
  for (size_t shape = 0; shape < gemms.size(); ++shape)
    ns += gemms[shape].times * costs_.bucket_ns(shape);
  return ns;
}

Result<std::unique_ptr<plan::Planner>> make_group_planner(
    std::string_view name, const device::DeviceInfo& device, const plan::PlanLimits& limits,
    const std::shared_ptr<const plan::CostTables>& tables) {
  std::shared_ptr<plan::PlanPricer> pricer;
  if (tables && tables->serve_planners() && !tables->shared_gemms.empty())
    pricer = std::make_shared<PassPricer>(device, limits, tables);
  return plan::make_planner(
      name, {.limits = limits, .tables = tables.get(), .pricer = std::move(pricer)});
}

}  // namespace itif::runtime
