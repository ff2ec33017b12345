#include "runtime/cost/gemm_scheduler.h"

#include <utility>

namespace itif::runtime {

GemmScheduler::GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows)
    : parts_(parts), max_ranges_(max_ranges), max_rows_(max_rows), costs_(make_costs(nullptr)) {}

GemmScheduler::~GemmScheduler() {
  delete next_costs_.load();
}

std::unique_ptr<GemmScheduler::Costs> GemmScheduler::make_costs(
    std::shared_ptr<const plan::CostTables> tables) const {
  auto costs =
      std::make_unique<Costs>(RangeCosts(parts_, max_ranges_, max_rows_, std::move(tables)));
  for (const plan::SharedGemm& gemm : costs->ranges.gemms())
    costs->modes.push_back({.n = gemm.n, .k = gemm.k});
  return costs;
}

void GemmScheduler::set_costs(std::shared_ptr<const plan::CostTables> costs) {
  delete next_costs_.exchange(make_costs(std::move(costs)).release(), std::memory_order_acq_rel);
}

kernels::GemmMode GemmScheduler::cheapest(const RangeCosts& costs, size_t shape) noexcept {
  using enum kernels::GemmMode;
  kernels::GemmMode mode = kSequential;
  double ns = costs.cost_ns(shape, mode);
  const auto offer = [&](kernels::GemmMode other, double max_ratio) {
    const double other_ns = costs.cost_ns(shape, other);
    if (other_ns > max_ratio * ns) return;
    mode = other;
    ns = other_ns;
  };
  offer(kStreams, 1);
  offer(kConcurrent, kMaxLonger);
  if (costs.cost_ns(shape, kPointers) < ns) mode = kPointers;
  return mode;
}

kernels::GemmSchedule GemmScheduler::choose(std::span<const kernels::RowRange> ranges) noexcept {
  using enum kernels::GemmMode;
  if (Costs* next = next_costs_.exchange(nullptr, std::memory_order_acq_rel)) costs_.reset(next);
  if (ranges.size() < 2 || parts_ == 1) return kSequential;
  RangeCosts& costs = costs_->ranges;
  costs.set(ranges);
  const kernels::GemmMode unmeasured = costs.longer() <= kMaxLonger ? kConcurrent : kSequential;
  if (costs_->modes.empty()) return unmeasured;
  for (size_t i = 0; i < costs_->modes.size(); ++i) {
    const RangeCosts::RangeLine line = costs.range_line(i);
    costs_->modes[i].mode = cheapest(costs, i);
    costs_->modes[i].call_ns = line.call_ns;
    costs_->modes[i].row_ns = line.row_ns;
  }
  return {costs_->modes, unmeasured};
}

}  // namespace itif::runtime
