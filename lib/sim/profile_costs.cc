#include "sim/profile_costs.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::sim {

using kernels::GemmMode;

ProfileCosts::ProfileCosts(uint32_t parts, uint32_t layers, const plan::PlanLimits& limits,
                           std::shared_ptr<const plan::CostTables> tables,
                           uint64_t request_overhead_ns)
    : parts_(parts),
      layers_(layers),
      request_overhead_ns_(static_cast<double>(request_overhead_ns)),
      tables_(tables),
      ranges_(parts, limits.max_requests, limits.max_rows, std::move(tables)) {}

double ProfileCosts::operator_ns(kernels::Operator op, double /*part*/) noexcept {
  if (const auto* gemms = std::get_if<const kernels::GroupedGemms*>(&op)) {
    double ns = 0;
    for (const kernels::GroupedGemm& gemm : (*gemms)->all) ns += gemm_ns(gemm);
    return ns;
  }
  if (const auto* attention = std::get_if<const kernels::Attention*>(&op)) {
    double ns = 0;
    for (const kernels::SegmentRows& segment : (*attention)->segments)
      ns +=
          segment.num_rows * plan::other_row_ns(*tables_, segment.num_rows) + request_overhead_ns_;
    return ns / layers_;
  }
  return 0;
}

double ProfileCosts::gemm_ns(const kernels::GroupedGemm& gemm) noexcept {
  const auto known = std::ranges::find_if(ranges_.gemms(), [&](const plan::SharedGemm& shared) {
    return shared.n == gemm.n && shared.k == gemm.k;
  });
  CHECK(known != ranges_.gemms().end());  // the profile is of this backbone
  const auto shape = static_cast<size_t>(known - ranges_.gemms().begin());
  const auto cost_of = [&](std::span<const kernels::RowRange> ranges, GemmMode mode) {
    if (ranges.empty()) return 0.0;
    ranges_.set(ranges);
    if (ranges.size() < 2 || parts_ == 1) mode = GemmMode::kSequential;
    return ranges_.cost_ns(shape, mode);
  };
  if (gemm.schedule.calls().empty())
    return cost_of(gemm.ranges, gemm.schedule.mode_of(gemm.n, gemm.k));
  double ns = 0;
  size_t first = 0;
  for (const kernels::GemmCall& call : gemm.schedule.calls()) {
    ns += cost_of(gemm.ranges.subspan(first, call.num_ranges), GemmMode::kConcurrent);
    first += call.num_ranges;
  }
  return ns;
}

}  // namespace itif::sim
