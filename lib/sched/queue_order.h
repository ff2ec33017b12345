// The order in which requests leave the tenants' queues. Policies add the rest
// (ordered_policy.h).
#pragma once

#include <vector>

#include "sched/batch_limits.h"
#include "sched/group_queue.h"

namespace itif::sched {

class QueueOrder {
 public:
  virtual ~QueueOrder() = default;
  // Notes a request that the queue has taken in.
  virtual void pushed(const GroupQueue&, const request::Request&) noexcept {}
  // Moves requests from the queue to the end of `batch`, which may hold some. The whole batch stays
  // within the limits; a request of more than max_tokens gets a batch alone. Leaves `batch` empty
  // only if the queue is empty. Allocates nothing once `batch` has its capacity.
  virtual void select(GroupQueue& queue, const BatchLimits& limits,
                      std::vector<request::Request*>& batch) noexcept = 0;
  // Charges the tenant's share for a request that was chosen without the order (urgent.h).
  virtual void charge(const request::Request&) noexcept {}
  // Returns true if the order shields tenants that send little from those that flood
  // (objectives.h).
  virtual bool isolates() const noexcept = 0;
};

}  // namespace itif::sched
