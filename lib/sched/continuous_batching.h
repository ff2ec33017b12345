// A batch policy for continuous batching: requests join a running batch between two steps.
//
// The order selects several requests at a time. Selected requests that find no room (Capacity) keep
// their rows and slots and go first in the next choice. A choice never mixes two selections. The
// batch has no expected end, so neither objectives nor a bound of its size apply, and a request is
// refused only after its deadline has passed, or once it has waited too long.
#pragma once

#include <memory>

#include "sched/batch_policy.h"
#include "sched/queue_order.h"

namespace itif::sched {

class ContinuousBatching final : public BatchPolicy {
 public:
  ContinuousBatching(std::unique_ptr<QueueOrder> order, const PolicyOptions& options);

  request::Request* pop() noexcept override;
  uint32_t num_waiting() const noexcept override;
  GroupQueue::Backlog backlog_ahead(uint32_t slot) const noexcept override {
    return order_->backlog_ahead(queue_, slot);
  }
  void choose(const ExecutorState& state, Choice& choice) noexcept override;

 protected:
  void entered(request::Request& request, uint64_t now_ns,
               const BatchCosts& costs) noexcept override;
  void remove(request::Request* request) noexcept override;

 private:
  const std::unique_ptr<QueueOrder> order_;
  const BatchLimits limits_;
  const uint64_t max_wait_ns_;  // of refuse_overdue()
  Choice selection_;
  size_t next_ = 0;  // index in selection_.batch of the first request that has not left yet
};

}  // namespace itif::sched
