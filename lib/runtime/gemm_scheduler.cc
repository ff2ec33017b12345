#include "runtime/gemm_scheduler.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace itif::runtime {

GemmScheduler::GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows)
    : load_(std::max(1u, parts)), costs_(std::make_unique<Costs>()) {
  // Ranges of equal size together hold up to a row a range more.
  tasks_.reserve(size_t{max_ranges} + (size_t{max_rows} + max_ranges) / kTaskRows);
  equal_.reserve(max_ranges);
}

GemmScheduler::~GemmScheduler() {
  delete next_costs_.load();
}

void GemmScheduler::set_costs(std::shared_ptr<const plan::CostTables> costs) {
  auto next = std::make_unique<Costs>();
  if (costs && !costs->shared_gemms.empty()) {
    for (const plan::SharedGemm& gemm : costs->shared_gemms)
      next->modes.push_back({.n = gemm.n, .k = gemm.k});
    next->tables = std::move(costs);
  }
  delete next_costs_.exchange(next.release(), std::memory_order_acq_rel);
}

// Longest task first to the least loaded part: at most 4/3 of the best deal (Graham, "Bounds on
// multiprocessing timing anomalies", 1969).
uint64_t GemmScheduler::deal(std::span<const kernels::RowRange> ranges) noexcept {
  tasks_.clear();
  for (const kernels::RowRange& range : ranges)
    for (uint32_t row = 0; row < range.num_rows; row += kTaskRows)
      tasks_.push_back(std::min(range.num_rows - row, kTaskRows));
  std::ranges::sort(tasks_, std::greater());
  std::ranges::fill(load_, 0);
  for (const uint32_t task : tasks_) *std::ranges::min_element(load_) += task;
  return *std::ranges::max_element(load_);
}

kernels::GemmModes GemmScheduler::choose(std::span<const kernels::RowRange> ranges) noexcept {
  using enum kernels::GemmMode;
  if (Costs* next = next_costs_.exchange(nullptr, std::memory_order_acq_rel)) costs_.reset(next);
  if (ranges.size() < 2 || load_.size() < 2) return kInTurn;
  uint64_t rows = 0;
  for (const kernels::RowRange& range : ranges) rows += range.num_rows;
  const auto most = static_cast<double>(deal(ranges));
  const double mean_load = static_cast<double>(rows) / static_cast<double>(load_.size());
  const kernels::GemmMode even = most <= kMostUneven * mean_load ? kAtOnce : kInTurn;
  if (!costs_->tables) return even;

  const auto count = static_cast<double>(ranges.size());
  const double mean_rows = static_cast<double>(rows) / count;
  equal_.assign(ranges.size(),
                {.num_rows = static_cast<uint32_t>((rows + ranges.size() - 1) / ranges.size())});
  const double longer = std::max(1.0, most / static_cast<double>(deal(equal_)));
  const plan::CostTables& tables = *costs_->tables;
  for (size_t i = 0; i < costs_->modes.size(); ++i) {
    const plan::SharedGemm& gemm = tables.shared_gemms[i];
    const double in_turn = plan::shared_gemm_ns(tables, gemm.in_turn_ns, count, mean_rows);
    const double at_once = plan::shared_gemm_ns(tables, gemm.at_once_ns, count, mean_rows) * longer;
    costs_->modes[i].mode = at_once <= kMostLonger * in_turn ? kAtOnce : kInTurn;
  }
  return {costs_->modes, even};
}

}  // namespace itif::runtime
