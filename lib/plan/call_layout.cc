#include "plan/call_layout.h"

#include <algorithm>

namespace itif::plan {

void CallLayout::append(const RequestOrder& order, std::span<PaddedBatch> batches,
                        std::span<const uint32_t> ends, const CostModel& costs,
                        Plan& plan) noexcept {
  calls_.clear();
  uint32_t first = 0;
  for (const uint32_t end : ends) {
    calls_.push_back(batches.subspan(first, end - first));
    // Ranks in `order` ascend by tenant.
    std::ranges::sort(calls_.back(), {}, &PaddedBatch::first);
    first = end;
  }
  std::ranges::sort(calls_, {}, [](std::span<const PaddedBatch> call) { return call[0].first; });
  for (const std::span<const PaddedBatch> call : calls_)
    append_call(order, call, limits_.max_rows, &costs, plan);
}

}  // namespace itif::plan
