#include "plan/tenant_batching.h"

#include <algorithm>

namespace itif::plan {

TenantBatching::TenantBatching(const CostModel& costs, const PlanLimits& limits)
    : costs_(costs),
      limits_(limits),
      state_(size_t{limits.max_requests} + 1),
      start_(size_t{limits.max_requests} + 1) {}

double TenantBatching::divide(const RequestOrder& order, std::vector<PaddedBatch>& batches,
                              uint32_t shared_by) noexcept {
  batches.clear();
  double cost_ns = 0;
  for (uint32_t first = 0; first < order.size();) {
    const uint32_t end = order.tenant_end(first);
    cost_ns += divide_tenant(order, first, end, shared_by, batches);
    first = end;
  }
  return cost_ns;
}

double TenantBatching::divide_tenant(const RequestOrder& order, uint32_t first, uint32_t end,
                                     uint32_t shared_by,
                                     std::vector<PaddedBatch>& batches) noexcept {
  const uint32_t num_requests = end - first;
  const bool is_shared = shared_by > 1 && costs_.has_batched_gemm();
  state_[0] = 0;
  for (uint32_t i = 1; i <= num_requests; ++i) {
    const uint32_t length = order.length(first + i - 1);
    const CostRow gemm = costs_.gemm(length);
    const uint32_t most = std::min(i, limits_.max_rows / length);
    const auto cost_of = [&](uint32_t size) {
      const double alone = gemm[size];
      if (!is_shared || shared_by > limits_.max_requests / size ||
          shared_by > limits_.max_rows / (size * length))
        return alone;
      return std::min(alone, costs_.batched_gemm(length, size)[shared_by] / shared_by);
    };
    double least = state_[i - 1] + cost_of(1);
    uint32_t cheapest_size = 1;
    for (uint32_t size = 2; size <= most; ++size) {
      const double cost = state_[i - size] + cost_of(size);
      if (cost < least) {
        least = cost;
        cheapest_size = size;
      }
    }
    state_[i] = least;
    start_[i] = i - cheapest_size;
  }
  const auto before = static_cast<std::ptrdiff_t>(batches.size());
  for (uint32_t i = num_requests; i > 0; i = start_[i])
    batches.push_back({first + start_[i], i - start_[i], order.length(first + i - 1)});
  std::reverse(batches.begin() + before, batches.end());
  return state_[num_requests];
}

}  // namespace itif::plan
