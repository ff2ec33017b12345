// A batch policy over the queue's lanes: an order, and before it what keeps latency objectives.
//
// Each turn sets the tenants' objectives (objectives.h), bounds the batch by them (batch_bound.h,
// and the undisturbed cost for those that send little), puts urgent requests first (urgent.h), lets
// the order fill the batch, and refuses requests that would miss their deadlines.
#pragma once

#include <memory>

#include "sched/batch_bound.h"
#include "sched/batch_policy.h"
#include "sched/lane_order.h"
#include "sched/objectives.h"
#include "sched/urgent.h"

namespace itif::sched {

class LanePolicy final : public BatchPolicy {
 public:
  LanePolicy(std::unique_ptr<LaneOrder> order, const PolicyOptions& options);

  void choose(const Turn& turn, Choice& choice) noexcept override;
  void ran(const BatchRun& run) noexcept override;

 private:
  void fill(const Turn& turn, const Objectives& objectives,
            std::vector<request::Request*>& batch) noexcept;
  static void refuse_late(const Turn& turn, Choice& choice) noexcept;

  const std::unique_ptr<LaneOrder> order_;
  const BatchLimits limits_;
  const bool continuous_;
  BatchBound bound_;
  Urgent urgent_;
};

}  // namespace itif::sched
