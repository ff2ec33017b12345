// The executor's state when a policy chooses a batch.
#pragma once

#include <cstdint>

#include "request/request.h"
#include "sched/batch_costs.h"
#include "sched/batch_limits.h"

namespace itif::sched {

// The room that a running batch has left for requests that join it, in the executor's own units.
class Capacity {
 public:
  virtual ~Capacity() = default;
  // Reserves what the request needs. Returns false and reserves nothing if too little is left.
  virtual bool reserve(const request::Request& request) noexcept = 0;
};

// The costs and the capacity outlive this object.
struct ExecutorState {
  uint64_t now_ns = 0;
  uint64_t start_ns = 0;  // earliest start: when the running batches are expected to end
  BatchCosts costs = {};
  // Continuous batching: the policy reserves each chosen request's part here. nullptr: only the
  // limits apply.
  Capacity* capacity = nullptr;
  // The rows of the planner that lays out this batch. Policies that fill rows fill these
  // (Choice::has_rows); the others leave rows to the planner.
  BatchRows rows = {};
};

}  // namespace itif::sched
