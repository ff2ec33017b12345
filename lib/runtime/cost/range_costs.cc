#include "runtime/cost/range_costs.h"

#include <algorithm>
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
      unevenness.push_back(count == 1 ? 1 : longer_);
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
  for (const kernels::RowRange& range : ranges) rows += range.num_rows;
  count_ = static_cast<double>(ranges.size());
  mean_rows_ = static_cast<double>(rows) / count_;
  longer_ = 1;
  if (partitions_itself()) return;
  partitioner_.clear();
  partitioner_.add(ranges);
  const device::GemmPartitioner::Partition partition = partitioner_.partition();
  longer_ = partition.unevenness * (1 + kCopyCost * partition.copied);
}

double RangeCosts::sequential_ns(size_t shape) const noexcept {
  return plan::shared_gemm_ns(*tables_, tables_->shared_gemms[shape].sequential_ns, count_,
                              mean_rows_);
}

double RangeCosts::concurrent_ns(size_t shape) const noexcept {
  return longer_ * plan::shared_gemm_ns(*tables_, even_ns_[shape], count_, mean_rows_);
}

}  // namespace itif::runtime
