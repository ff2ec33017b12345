#include "plan/operator_batching.h"

#include <algorithm>
#include <tuple>

namespace itif::plan {

OperatorBatching::OperatorBatching(const CostModel& costs, const PlanLimits& limits)
    : costs_(costs),
      limits_(limits),
      state_(size_t{limits.max_requests} + 1),
      start_(size_t{limits.max_requests} + 1) {}

double OperatorBatching::pack(std::vector<PaddedBatch>& batches,
                              std::vector<uint32_t>& ends) noexcept {
  std::sort(batches.begin(), batches.end(), [](const PaddedBatch& a, const PaddedBatch& b) {
    return std::tie(a.size, a.length, a.first) < std::tie(b.size, b.length, b.first);
  });
  ends.clear();
  const auto num_batches = static_cast<uint32_t>(batches.size());
  double cost_ns = 0;
  for (uint32_t first = 0; first < num_batches;) {
    uint32_t end = first + 1;
    while (end < num_batches && batches[end].size == batches[first].size) ++end;
    cost_ns += pack_run(batches, first, end, ends);
    first = end;
  }
  return cost_ns;
}

double OperatorBatching::pack_run(const std::vector<PaddedBatch>& batches, uint32_t first,
                                  uint32_t end, std::vector<uint32_t>& ends) noexcept {
  const uint32_t size = batches[first].size, num_batches = end - first;
  state_[0] = 0;
  for (uint32_t i = 1; i <= num_batches; ++i) {
    const uint32_t length = batches[first + i - 1].length;
    double least = state_[i - 1] + costs_.gemm(length)[size];
    uint32_t cheapest_count = 1;
    if (costs_.has_batched_gemm()) {
      const CostRow batched = costs_.batched_gemm(length, size);
      const uint32_t most = std::min(i, limits_.max_rows / (size * length));
      for (uint32_t count = 2; count <= most; ++count) {
        const double cost = state_[i - count] + batched[count];
        if (cost < least) {
          least = cost;
          cheapest_count = count;
        }
      }
    }
    state_[i] = least;
    start_[i] = i - cheapest_count;
  }
  const auto before = static_cast<std::ptrdiff_t>(ends.size());
  for (uint32_t i = num_batches; i > 0; i = start_[i]) ends.push_back(first + i);
  std::reverse(ends.begin() + before, ends.end());
  return state_[num_batches];
}

}  // namespace itif::plan
