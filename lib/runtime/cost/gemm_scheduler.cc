#include "runtime/cost/gemm_scheduler.h"

#include <algorithm>
#include <utility>

namespace itif::runtime {

GemmScheduler::GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows)
    : parts_(parts),
      deal_(std::max(1u, parts), max_ranges, max_rows),
      costs_(std::make_unique<Costs>()) {}

GemmScheduler::~GemmScheduler() {
  delete next_costs_.load();
}

void GemmScheduler::set_costs(std::shared_ptr<const plan::CostTables> costs) {
  auto next = std::make_unique<Costs>();
  if (costs && !costs->shared_gemms.empty()) {
    std::vector<double> unevenness;
    for (const uint32_t count : costs->range_counts)
      for (const uint32_t rows : costs->range_rows) {
        if (deals_by_itself()) {
          unevenness.push_back(1);
          continue;
        }
        device::GemmDeal deal(parts_);
        deal.add(std::vector<kernels::RowRange>(count, {.num_rows = rows}));
        unevenness.push_back(longer(deal.deal()));
      }
    for (const plan::SharedGemm& gemm : costs->shared_gemms) {
      next->even_ns.push_back(gemm.at_once_ns);
      for (size_t i = 0; i < unevenness.size(); ++i) next->even_ns.back()[i] /= unevenness[i];
      next->modes.push_back({.n = gemm.n, .k = gemm.k});
    }
    next->tables = std::move(costs);
  }
  delete next_costs_.exchange(next.release(), std::memory_order_acq_rel);
}

kernels::GemmSchedule GemmScheduler::choose(std::span<const kernels::RowRange> ranges) noexcept {
  using enum kernels::GemmMode;
  if (Costs* next = next_costs_.exchange(nullptr, std::memory_order_acq_rel)) costs_.reset(next);
  if (ranges.size() < 2 || parts_ == 1) return kSequential;
  double factor = 1;
  if (!deals_by_itself()) {
    deal_.clear();
    deal_.add(ranges);
    factor = longer(deal_.deal());
  }
  const kernels::GemmMode unmeasured = factor <= kMaxLonger ? kConcurrent : kSequential;
  if (!costs_->tables) return unmeasured;

  uint64_t rows = 0;
  for (const kernels::RowRange& range : ranges) rows += range.num_rows;
  const auto count = static_cast<double>(ranges.size());
  const double mean_rows = static_cast<double>(rows) / count;
  const plan::CostTables& tables = *costs_->tables;
  for (size_t i = 0; i < costs_->modes.size(); ++i) {
    const auto of = [&](const std::vector<double>& costs_ns) {
      return plan::shared_gemm_ns(tables, costs_ns, count, mean_rows);
    };
    const bool is_cheaper =
        of(costs_->even_ns[i]) * factor <= kMaxLonger * of(tables.shared_gemms[i].in_turn_ns);
    costs_->modes[i].mode = is_cheaper ? kConcurrent : kSequential;
  }
  return {costs_->modes, unmeasured};
}

}  // namespace itif::runtime
