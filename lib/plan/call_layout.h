// Puts the calls of a plan in the order in which the device runs them.
//
// Calls of one tenant follow each other. Their rows then meet in one pass where a batch needs
// several, so that fewer passes read the tenant's weights, and the second call of a tenant finds
// the weights in the cache that the first has read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/padded.h"

namespace itif::plan {

class CallLayout {
 public:
  explicit CallLayout(const PlanLimits& limits) : limits_(limits) {
    calls_.reserve(limits.max_requests);
  }

  // Appends the calls of OperatorBatching::pack(): call c takes batches [ends[c - 1], ends[c]), and
  // call 0 starts at 0. Reorders `batches` within each call. Allocates nothing.
  void append(const RequestOrder& order, std::span<PaddedBatch> batches,
              std::span<const uint32_t> ends, const CostModel& costs, Plan& plan) noexcept;

 private:
  const PlanLimits limits_;
  std::vector<std::span<PaddedBatch>> calls_;
};

}  // namespace itif::plan
