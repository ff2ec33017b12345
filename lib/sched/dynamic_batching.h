// A batch policy for batches that end as a whole. It keeps latency objectives first, then fills the
// batch by an order over the tenants' queues.
//
// Each choice refuses requests that cannot meet their deadlines, sets the tenants' objectives
// (objectives.h), bounds the batch by them (batch_bound.h, and the undisturbed cost for those that
// send little), puts urgent requests first (urgent.h), lets the order fill the batch, and refuses
// those of the batch that would miss their deadlines, and the waiting ones that the batch makes
// late.
#pragma once

#include <memory>

#include "sched/batch_bound.h"
#include "sched/batch_policy.h"
#include "sched/objectives.h"
#include "sched/queue_order.h"
#include "sched/urgent.h"

namespace itif::sched {

class DynamicBatching final : public BatchPolicy {
 public:
  DynamicBatching(std::unique_ptr<QueueOrder> order, const PolicyOptions& options);

  request::Request* pop() noexcept override;
  GroupQueue::Backlog backlog_ahead(uint32_t slot) const noexcept override {
    return order_->backlog_ahead(queue_, slot);
  }
  void choose(const ExecutorState& state, Choice& choice) noexcept override;
  void ran(const BatchRun& run) noexcept override;

 protected:
  void entered(request::Request& request, uint64_t now_ns,
               const BatchCosts& costs) noexcept override;
  void remove(request::Request* request) noexcept override;

 private:
  void fill(const ExecutorState& state, const Objectives::Tightest& tightest,
            Choice& choice) noexcept;
  static void refuse_late(const ExecutorState& state, Choice& choice) noexcept;

  const std::unique_ptr<QueueOrder> order_;
  const BatchLimits limits_;
  Objectives objectives_;
  BatchBound bound_;
  Urgent urgent_;
};

}  // namespace itif::sched
