#include "runtime/gemm_scheduler.h"

#include <algorithm>
#include <functional>

namespace itif::runtime {

GemmScheduler::GemmScheduler(uint32_t parts, uint32_t max_ranges, uint32_t max_rows)
    : load_(std::max(1u, parts)) {
  tasks_.reserve(size_t{max_ranges} + max_rows / kTaskRows);
}

// Longest task first to the least loaded part: at most 4/3 of the best deal (Graham, "Bounds on
// multiprocessing timing anomalies", 1969).
kernels::GemmMode GemmScheduler::choose(std::span<const kernels::RowRange> ranges) noexcept {
  using enum kernels::GemmMode;
  if (ranges.size() < 2 || load_.size() < 2) return kInTurn;
  tasks_.clear();
  uint64_t rows = 0;
  for (const kernels::RowRange& range : ranges) {
    rows += range.num_rows;
    for (uint32_t row = 0; row < range.num_rows; row += kTaskRows)
      tasks_.push_back(std::min(range.num_rows - row, kTaskRows));
  }
  std::ranges::sort(tasks_, std::greater());
  std::ranges::fill(load_, 0);
  for (const uint32_t task : tasks_) *std::ranges::min_element(load_) += task;
  const double mean = static_cast<double>(rows) / static_cast<double>(load_.size());
  const auto most = static_cast<double>(*std::ranges::max_element(load_));
  return most <= kMostUneven * mean ? kAtOnce : kInTurn;
}

}  // namespace itif::runtime
