// Puts the calls of a plan in the order in which the device runs them.
//
// Calls of one tenant follow each other. If a batch needs several passes, a tenant's rows are then
// in as few of them as possible, so that fewer passes read its weights. The second call of a tenant
// finds the weights in the cache, because the first has read them.
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
