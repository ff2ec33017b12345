// A batch policy for batches that end as a whole. It keeps latency objectives first, then fills the
// batch by an order over the tenants' queues.
//
// A choice takes these steps:
// 1. It refuses requests that cannot meet their deadlines, or have waited too long.
// 2. It sets the tenants' objectives (objectives.h). batch_control.h bounds the batch by those that
//    tenants have set. The undisturbed cost also bounds it by those that tenants who send little
//    imply.
// 3. It puts urgent requests first (urgent.h), and lets the order fill the batch.
// 4. It refuses the requests of the batch that would miss their deadlines even alone. Those that
//    only the whole batch makes late wait again (late_requests.h).
// 5. It refuses the waiting requests that the batch makes late.
#pragma once

#include <memory>

#include "sched/batch_control.h"
#include "sched/batch_policy.h"
#include "sched/late_requests.h"
#include "sched/objectives.h"
#include "sched/queue_order.h"
#include "sched/small_batches.h"
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
  void ran(const BatchRun& run) noexcept override { control_->ran(run); }
  slice::Ask share_ask() const noexcept override { return control_->ask(); }

 protected:
  void entered(request::Request& request, uint64_t now_ns,
               const BatchCosts& costs) noexcept override;
  void remove(request::Request* request) noexcept override;

 private:
  // Steps 2 and 3: bounds and fills the batch. Returns the limits that it filled it by.
  BatchLimits fill(const ExecutorState& state, const Objectives::Tightest& tightest,
                   Choice& choice) noexcept;
  // Returns the batch size, in tokens, that implied objectives always allow; 0: none is implied,
  // the size is unknown, or a tenant has set an objective.
  uint32_t efficient_tokens(const BatchCost& cost,
                            const Objectives::Tightest& tightest) const noexcept;
  // Step 4: removes the late requests from the batch. Returns true if any has left and others may
  // take its room.
  bool leave_late(const ExecutorState& state, const BatchLimits& limits, Choice& choice) noexcept;

  const std::unique_ptr<QueueOrder> order_;
  const BatchLimits limits_;
  const uint64_t max_wait_ns_;  // of refuse_overdue()
  Objectives objectives_;
  const std::unique_ptr<BatchControl> control_;
  Urgent urgent_;
  SmallBatches small_batches_;
  LateRequests late_;
  bool late_ran_first_ = false;  // the last batch was split, ahead of others that can wait
};

}  // namespace itif::sched
