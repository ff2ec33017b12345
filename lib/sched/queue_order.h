// The interface of an order, which decides which waiting requests enter a batch next.
// ordered_policy.h makes a policy from an order.
#pragma once

#include "sched/batch_limits.h"
#include "sched/executor_state.h"
#include "sched/group_queue.h"

namespace itif::sched {

struct Choice;

class QueueOrder {
 public:
  virtual ~QueueOrder() = default;
  // Notes a request that the queue has taken in.
  virtual void pushed(const GroupQueue&, request::Request&) noexcept {}
  // Notes a request that left the queue other than by select().
  virtual void removed(const request::Request&) noexcept {}
  // Notes a request that was chosen and is in the queue again: the batch would have made it late.
  virtual void put_back(const GroupQueue& queue, request::Request& request) noexcept {
    pushed(queue, request);
  }
  // Moves requests from the queue to the end of choice.batch, which may hold some, and sets their
  // rows. The whole batch stays within the limits (row_fill.h). May refuse requests that would miss
  // their deadlines: at most max_requests. Leaves the choice empty only if the queue is empty.
  // Allocates nothing once `choice` has room for max_requests.
  virtual void select(GroupQueue& queue, const ExecutorState& state, const BatchLimits& limits,
                      Choice& choice) noexcept = 0;
  // Fills the gaps that requests have left in the rows and slots of choice.batch (Choice::has_rows,
  // slot_tokens): gives the others new rows and slots. `limits`: those of select().
  virtual void close_gaps(const BatchLimits& /*limits*/, Choice& /*choice*/) noexcept {}
  // Returns the work in the queue that is served before a request of the tenant that arrives now.
  virtual GroupQueue::Backlog backlog_ahead(const GroupQueue& queue, uint32_t slot) const noexcept {
    return isolates() ? queue.backlog_of(slot) : queue.backlog();
  }
  // Returns true if backlog_ahead() knows how long a request that arrives will wait.
  virtual bool knows_backlog() const noexcept { return true; }
  // Charges the tenant's share for a request that was chosen without the order (urgent.h).
  virtual void charge(const request::Request&) noexcept {}
  // Returns true if the order fills rows (Choice::has_rows). False: it gets one row of any length.
  virtual bool fills_rows() const noexcept { return false; }
  // Returns true if the order shields tenants that send little from those that flood
  // (objectives.h).
  virtual bool isolates() const noexcept = 0;
};

}  // namespace itif::sched
