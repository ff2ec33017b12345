#include "runtime/cost/pass_pricer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "plan/make_planner.h"
#include "runtime/cost/gemm_scheduler.h"

namespace itif::runtime {
namespace {

// A pass runs all GEMMs of a shape; each weight has an equal part of them.
KindGemms gemms_of(std::span<const model::WeightKind> kinds, size_t kind,
                   std::span<const plan::SharedGemm> gemms) {
  const auto is_of = [](const model::WeightKind& one, const plan::SharedGemm& gemm) {
    return one.storage == model::Storage::kMatrix && one.gemm.n == gemm.n && one.gemm.k == gemm.k;
  };
  for (size_t shape = 0; shape < gemms.size(); ++shape) {
    if (!is_of(kinds[kind], gemms[shape])) continue;
    uint32_t num_weights = 0;
    for (const model::WeightKind& one : kinds)
      if (is_of(one, gemms[shape])) num_weights += one.num_gemms;
    return {.shape = shape,
            .times = double{1} * gemms[shape].times * kinds[kind].num_gemms / num_weights};
  }
  return {};
}

}  // namespace

PassPricer::PassPricer(const device::DeviceInfo& device, const plan::PlanLimits& limits,
                       std::shared_ptr<const plan::CostTables> tables,
                       std::shared_ptr<const PassWeights> weights, GraphBuckets buckets)
    : parts_(device.num_threads),
      buckets_(std::move(buckets)),
      tables_(tables),
      weights_(std::move(weights)),
      costs_(parts_, limits.max_requests, limits.max_rows, tables),
      joins_(parts_, weights_ ? weights_->kinds.size() : 0,
             {.max_ranges = limits.max_requests,
              .max_rows = limits.max_rows,
              .joins = weights_ != nullptr}) {
  CHECK(tables_->serve_planners() && !costs_.gemms().empty());
  joins_.set_costs(tables);
  ranges_.reserve(limits.max_requests);
  call_rows_.reserve(limits.max_requests);
  calls_.reserve(limits.max_requests);
  const auto gemms = costs_.gemms();
  for (size_t shape = 0; shape < gemms.size(); ++shape) times_[shape] = gemms[shape].times;
  if (!weights_) return;
  for (size_t kind = 0; kind < weights_->kinds.size(); ++kind)
    of_kind_.push_back(gemms_of(weights_->kinds, kind, gemms));
}

double PassPricer::price_ns(const plan::Plan& plan) noexcept {
  double ns = 0;
  for (const plan::Pass& pass : plan.passes) ns += price_ns(plan, pass);
  return ns;
}

bool PassPricer::has_bucket(const plan::Pass& pass) const noexcept {
  return calls_.empty() && buckets_.find(ranges_, pass.num_segments, 0) != nullptr;
}

double PassPricer::price_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept {
  double ns = 0;
  for (uint32_t s = pass.first_segment; s < pass.first_segment + pass.num_segments; ++s)
    ns += plan.segments[s].num_rows * plan::other_row_ns(*tables_, plan.segments[s].num_rows);
  ns += updates_ns(plan, pass);
  set_work(plan, pass);
  Times times = times_;
  if (has_bucket(pass)) return ns + bucket_gemms_ns(times);
  ns += joined_gemms_ns(times);
  return std::max(ns + gemms_ns(ranges_, calls_, times), tables_->launch_ns);
}

void PassPricer::set_work(const plan::Plan& plan, const plan::Pass& pass) noexcept {
  ranges_.clear();
  calls_.clear();
  for (uint32_t m = pass.first_mini_batch; m < pass.first_mini_batch + pass.num_mini_batches; ++m) {
    const plan::MiniBatch& batch = plan.mini_batches[m];
    ranges_.push_back(
        {.first_row = batch.first_row, .num_rows = batch.num_rows, .slot = batch.slot});
  }
  if (!plan.has_fixed_calls) return;
  for (uint32_t c = pass.first_call; c < pass.first_call + pass.num_calls; ++c)
    calls_.push_back(
        {.num_ranges = plan.calls[c].num_mini_batches, .cost_ns = plan.calls[c].cost_ns});
}

bool PassPricer::has_unknown_work(const plan::Plan& plan) noexcept {
  if (!weights_) return false;
  for (const plan::Segment& segment : plan.segments)
    if (segment.adapter != plan::kNoAdapter) return true;
  return std::ranges::any_of(plan.passes, [&](const plan::Pass& pass) {
    set_work(plan, pass);
    return !joins_.choose(ranges_, calls_, has_bucket(pass), weights_->view()).joined.all.empty();
  });
}

// Adjacent rows of an adapter are one update, as runtime/batch/batch_layout.cc has them.
double PassPricer::updates_ns(const plan::Plan& plan, const plan::Pass& pass) noexcept {
  if (!weights_ || !weights_->update_shares) return 0;
  double ns = 0;
  uint32_t adapter = plan::kNoAdapter, num_rows = 0, end_row = 0;
  for (const plan::Segment& segment :
       std::span(plan.segments).subspan(pass.first_segment, pass.num_segments)) {
    if (segment.adapter != adapter || segment.first_row != end_row) {
      ns += update_ns(adapter, num_rows);
      adapter = segment.adapter;
      num_rows = 0;
    }
    num_rows += segment.num_tokens;
    end_row = segment.first_row + segment.num_tokens;
  }
  return ns + update_ns(adapter, num_rows);
}

double PassPricer::update_ns(uint32_t adapter, uint32_t num_rows) const noexcept {
  if (adapter == plan::kNoAdapter) return 0;
  const std::span<const float> shares = weights_->update_shares(adapter);
  Times parts = {};  // of the GEMMs of each shape
  for (size_t kind = 0; kind < std::min(shares.size(), of_kind_.size()); ++kind)
    parts[of_kind_[kind].shape] += of_kind_[kind].times * static_cast<double>(shares[kind]);
  double ns = 0;
  const auto gemms = costs_.gemms();
  for (size_t shape = 0; shape < gemms.size(); ++shape)
    if (parts[shape] > 0)
      ns += parts[shape] *
            plan::shared_gemm_ns(*tables_, gemms[shape].sequential_ns, 1, double{1} * num_rows);
  return ns;
}

double PassPricer::joined_gemms_ns(Times& times) noexcept {
  if (!weights_) return 0;
  const backbone::JoinedGemms joined =
      joins_.choose(ranges_, calls_, false, weights_->view()).joined;
  double ns = 0;
  for (size_t list = 0; list < joined.all.size(); ++list) {
    Times of_list = {};
    for (size_t kind = 0; kind < joined.of_kind.size(); ++kind)
      if (joined.of_kind[kind] == list + 1) of_list[of_kind_[kind].shape] += of_kind_[kind].times;
    for (size_t shape = 0; shape < times.size(); ++shape) times[shape] -= of_list[shape];
    ns += gemms_ns(joined.all[list].ranges, joined.all[list].schedule.calls(), of_list);
  }
  return ns;
}

double PassPricer::gemms_ns(std::span<const kernels::RowRange> ranges,
                            std::span<const kernels::GemmCall> calls, const Times& times) noexcept {
  if (!calls.empty()) return planned_gemms_ns(ranges, calls, times);
  costs_.set(ranges);
  double ns = 0;
  for (size_t shape = 0; shape < costs_.gemms().size(); ++shape)
    ns += times[shape] * shape_ns(ranges.size(), shape, std::nullopt);
  return ns;
}

double PassPricer::planned_gemms_ns(std::span<const kernels::RowRange> ranges,
                                    std::span<const kernels::GemmCall> calls,
                                    const Times& times) noexcept {
  using enum kernels::GemmMode;
  const size_t num_shapes = costs_.gemms().size();
  Times by_shape = {};
  call_rows_.clear();
  for (const kernels::GemmCall& call : calls) {
    const auto of_call = ranges.first(call.num_ranges);
    ranges = ranges.subspan(call.num_ranges);
    costs_.set(of_call);
    for (size_t shape = 0; shape < num_shapes; ++shape)
      by_shape[shape] += times[shape] * shape_ns(of_call.size(), shape,
                                                 of_call.size() > 1 ? kConcurrent : kSequential);
    uint32_t num_rows = 0;
    for (const kernels::RowRange& range : of_call) num_rows += range.num_rows;
    call_rows_.push_back({.num_rows = num_rows});
  }
  costs_.set(call_rows_);
  double ns = 0;
  for (size_t shape = 0; shape < num_shapes; ++shape) {
    const double on_streams = costs_.cost_ns(shape, kStreams) / costs_.cost_ns(shape, kSequential);
    ns += by_shape[shape] * std::min(1.0, on_streams);  // infinite: the device has no streams
  }
  return ns;
}

// The GEMMs of one shape, over the ranges that costs_ has. `mode`: absent: as the GEMM scheduler
// would choose.
double PassPricer::shape_ns(size_t num_ranges, size_t shape,
                            std::optional<kernels::GemmMode> mode) const noexcept {
  const bool has_choice = num_ranges > 1 && parts_ != 1;
  const kernels::GemmMode of_shape = !has_choice ? kernels::GemmMode::kSequential
                                     : mode      ? *mode
                                                 : GemmScheduler::cheapest(costs_, shape);
  return costs_.cost_ns(shape, of_shape);
}

double PassPricer::bucket_gemms_ns(const Times& times) noexcept {
  costs_.set(ranges_);
  double ns = 0;
  for (size_t shape = 0; shape < costs_.gemms().size(); ++shape)
    ns += times[shape] * costs_.bucket_ns(shape);
  return ns;
}

Result<std::unique_ptr<plan::Planner>> make_group_planner(
    std::string_view name, const device::DeviceInfo& device, const plan::PlanLimits& limits,
    const std::shared_ptr<const plan::CostTables>& tables,
    std::shared_ptr<const PassWeights> weights, GraphBuckets buckets) {
  std::shared_ptr<plan::PlanPricer> pricer;
  if (tables && tables->serve_planners() && !tables->shared_gemms.empty())
    pricer = std::make_shared<PassPricer>(device, limits, tables, std::move(weights),
                                          std::move(buckets));
  return plan::make_planner(
      name, {.limits = limits, .tables = tables.get(), .pricer = std::move(pricer)});
}

}  // namespace itif::runtime
