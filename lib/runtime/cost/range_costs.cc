#include "runtime/cost/range_costs.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace itif::runtime {

RangeCosts::RangeCosts(uint32_t parts, uint32_t max_ranges, uint32_t max_rows,
                       std::shared_ptr<const plan::CostTables> tables)
    : parts_(parts),
      tables_(std::move(tables)),
      partitioner_(std::max(1u, parts), max_ranges, max_rows) {
  if (gemms().empty()) return;
  std::vector<double> unevenness;
  std::vector<kernels::RowRange> ranges;
  for (const uint32_t count : tables_->range_counts)
    for (const uint32_t rows : tables_->range_rows) {
      ranges.assign(count, {.num_rows = rows});
      set(ranges);
      // One range has all parts in both tables.
      unevenness.push_back(count == 1 ? 1 : unevenness_);
    }
  for (const plan::SharedGemm& gemm : tables_->shared_gemms) {
    std::vector<double>& even = even_ns_.emplace_back(gemm.concurrent_ns);
    for (size_t i = 0; i < even.size(); ++i) even[i] /= unevenness[i];
  }
}

std::span<const plan::SharedGemm> RangeCosts::gemms() const noexcept {
  if (!tables_) return {};
  return tables_->shared_gemms;
}

void RangeCosts::set(std::span<const kernels::RowRange> ranges) noexcept {
  uint64_t rows = 0;
  min_rows_ = max_rows_ = ranges[0].num_rows;
  for (const kernels::RowRange& range : ranges) {
    rows += range.num_rows;
    min_rows_ = std::min(min_rows_, range.num_rows);
    max_rows_ = std::max(max_rows_, range.num_rows);
  }
  count_ = static_cast<double>(ranges.size());
  mean_rows_ = static_cast<double>(rows) / count_;
  has_equal_rows_ = has_equal_steps_ = true;
  for (size_t i = 1; i < ranges.size(); ++i) {
    has_equal_rows_ &= ranges[i].num_rows == ranges[0].num_rows;
    has_equal_steps_ &= ranges[i].slot > ranges[i - 1].slot &&
                        ranges[i].slot - ranges[i - 1].slot == ranges[1].slot - ranges[0].slot;
  }
  unevenness_ = longer_ = 1;
  if (partitions_itself()) return;
  partitioner_.clear();
  partitioner_.add(ranges);
  const device::GemmPartitioner::Partition partition = partitioner_.partition();
  unevenness_ = partition.unevenness;
  longer_ = unevenness_ * (1 + kSplitRows * partition.num_splits / static_cast<double>(rows));
}

double RangeCosts::interpolate(const std::vector<double>& costs_ns) const noexcept {
  if (costs_ns.empty()) return std::numeric_limits<double>::infinity();
  return plan::shared_gemm_ns(*tables_, costs_ns, count_, mean_rows_);
}

double RangeCosts::cost_ns(size_t shape, kernels::GemmMode mode) const noexcept {
  using enum kernels::GemmMode;
  const plan::SharedGemm& gemm = tables_->shared_gemms[shape];
  // Ranges of unequal rows cost as equal ones where only those were measured.
  const auto cost = [&](const std::vector<double>& even, const std::vector<double>& uneven) {
    return interpolate(has_equal_rows_ || uneven.empty() ? even : uneven);
  };
  switch (mode) {
    case kSequential: return cost(gemm.sequential_ns, gemm.uneven_sequential_ns);
    case kStreams: return cost(gemm.streams_ns, gemm.uneven_streams_ns);
    case kPointers:
      return has_equal_rows_ ? interpolate(gemm.pointers_ns)
                             : std::numeric_limits<double>::infinity();
    case kConcurrent: break;
  }
  if (has_equal_rows_ && !has_equal_steps_ && !gemm.pointers_ns.empty())
    return interpolate(gemm.pointers_ns);
  return longer_ * cost(even_ns_[shape], gemm.uneven_concurrent_ns);
}

RangeCosts::RangeLine RangeCosts::range_line(size_t shape) const noexcept {
  const std::vector<double>& costs_ns = tables_->shared_gemms[shape].sequential_ns;
  const auto ns = [&](uint32_t rows) { return plan::shared_gemm_ns(*tables_, costs_ns, 1, rows); };
  const double least_ns = ns(min_rows_);
  if (min_rows_ == max_rows_) return {.call_ns = least_ns};
  const double row_ns = std::max(0.0, (ns(max_rows_) - least_ns) / (max_rows_ - min_rows_));
  return {.call_ns = std::max(0.0, least_ns - min_rows_ * row_ns), .row_ns = row_ns};
}

double RangeCosts::bucket_ns(size_t shape) const noexcept {
  const std::vector<double>& pointers_ns = tables_->shared_gemms[shape].pointers_ns;
  return pointers_ns.empty() ? cost_ns(shape, kernels::GemmMode::kConcurrent)
                             : interpolate(pointers_ns);
}

}  // namespace itif::runtime
