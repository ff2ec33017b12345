#include "device/gemm_partitioner.h"

#include <algorithm>
#include <functional>

namespace itif::device {

GemmPartitioner::GemmPartitioner(uint32_t parts, uint32_t max_ranges, uint32_t max_rows)
    : load_(parts) {
  ranges_.reserve(max_ranges);
  tasks_.reserve(size_t{max_ranges} + max_rows / kMinTaskRows);
}

void GemmPartitioner::add(std::span<const kernels::RowRange> ranges) noexcept {
  for (const kernels::RowRange& range : ranges) ranges_.push_back(range.num_rows);
}

// Assigns the longest task first to the least loaded part: at most 4/3 of the optimal load. Source:
// Graham, "Bounds on multiprocessing timing anomalies", 1969.
GemmPartitioner::Partition GemmPartitioner::partition_into(uint32_t task_rows) noexcept {
  tasks_.clear();
  uint64_t all_rows = 0;
  uint32_t num_splits = 0;
  for (const uint32_t rows : ranges_) {
    all_rows += rows;
    for (uint32_t row = 0; row < rows; row += task_rows) {
      tasks_.push_back(std::min(rows - row, task_rows));
      num_splits += row > 0;
    }
  }
  if (all_rows == 0) return {.task_rows = task_rows};
  std::ranges::sort(tasks_, std::greater());
  std::ranges::fill(load_, 0);
  for (const uint32_t task : tasks_) *std::ranges::min_element(load_) += task;
  const auto all = static_cast<double>(all_rows);
  const double mean = all / static_cast<double>(load_.size());
  return {.task_rows = task_rows,
          .unevenness = static_cast<double>(*std::ranges::max_element(load_)) / mean,
          .num_splits = num_splits};
}

GemmPartitioner::Partition GemmPartitioner::partition() noexcept {
  Partition best = partition_into(kMaxTaskRows);
  const uint32_t longest = ranges_.empty() ? 0 : *std::ranges::max_element(ranges_);
  for (uint32_t rows = kMaxTaskRows / 2; rows >= kMinTaskRows && best.unevenness > kEven;
       rows /= 2) {
    if (longest <= rows) continue;  // the same tasks
    if (const Partition smaller = partition_into(rows); smaller.unevenness < best.unevenness)
      best = smaller;
  }
  return best;
}

}  // namespace itif::device
