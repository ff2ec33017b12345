#include "plan/cost_model.h"

#include <algorithm>

namespace itif::plan {
namespace {

// A value's position on an axis: between two points, on one, or outside all of them.
struct AxisPosition {
  size_t lower = 0, upper = 0;
  double lower_weight = 1, upper_weight = 0;
};

AxisPosition position_on(const std::vector<uint32_t>& axis, uint32_t value) noexcept {
  if (value <= axis.front()) return {};
  const size_t last = axis.size() - 1;
  if (value >= axis.back()) return {last, last, static_cast<double>(value) / axis.back(), 0};
  const size_t upper =
      static_cast<size_t>(std::upper_bound(axis.begin(), axis.end(), value) - axis.begin());
  const double fraction =
      static_cast<double>(value - axis[upper - 1]) / (axis[upper] - axis[upper - 1]);
  return {upper - 1, upper, 1 - fraction, fraction};
}

}  // namespace

CostModel::CostModel(const CostTables& tables, uint32_t max_requests)
    : lengths_(tables.lengths), gemm_stride_(size_t{max_requests} + 1) {
  const size_t num_batches = tables.batches.size();
  gemm_.resize(lengths_.size() * gemm_stride_);
  for (uint32_t batch = 1; batch <= max_requests; ++batch) {
    const AxisPosition at = position_on(tables.batches, batch);
    for (size_t l = 0; l < lengths_.size(); ++l) {
      const double* costs = &tables.gemm_ns[l * num_batches];
      gemm_[l * gemm_stride_ + batch] =
          at.lower_weight * costs[at.lower] + at.upper_weight * costs[at.upper];
    }
  }
  if (tables.counts.empty()) return;

  size_offset_.resize(gemm_stride_);
  for (uint32_t size = 1; size <= max_requests; ++size) {
    size_offset_[size] = static_cast<uint32_t>(batched_stride_);
    batched_stride_ += max_requests / size + 1;
  }
  batched_gemm_.resize(lengths_.size() * batched_stride_);
  const size_t num_sizes = tables.sizes.size(), num_cells = tables.counts.size() * num_sizes;
  for (uint32_t size = 1; size <= max_requests; ++size) {
    const AxisPosition s = position_on(tables.sizes, size);
    for (uint32_t count = 2; count <= max_requests / size; ++count) {
      const AxisPosition c = position_on(tables.counts, count);
      for (size_t l = 0; l < lengths_.size(); ++l) {
        const double* lower = &tables.batched_gemm_ns[l * num_cells + c.lower * num_sizes];
        const double* upper = &tables.batched_gemm_ns[l * num_cells + c.upper * num_sizes];
        batched_gemm_[l * batched_stride_ + size_offset_[size] + count] =
            c.lower_weight * (s.lower_weight * lower[s.lower] + s.upper_weight * lower[s.upper]) +
            c.upper_weight * (s.lower_weight * upper[s.lower] + s.upper_weight * upper[s.upper]);
      }
    }
  }
}

CostRow CostModel::gemm(uint32_t length) const noexcept {
  const AxisPosition at = position_on(lengths_, length);
  return {&gemm_[at.lower * gemm_stride_], &gemm_[at.upper * gemm_stride_], at.lower_weight,
          at.upper_weight};
}

CostRow CostModel::batched_gemm(uint32_t length, uint32_t size) const noexcept {
  const AxisPosition at = position_on(lengths_, length);
  const double* costs = batched_gemm_.data() + size_offset_[size];
  return {costs + at.lower * batched_stride_, costs + at.upper * batched_stride_, at.lower_weight,
          at.upper_weight};
}

}  // namespace itif::plan
