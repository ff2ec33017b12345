// Predicts how long a plan takes on a group's device, whichever planner made it.
//
// The planners' own costs (Plan::cost_ns) are of planned calls only. A pricer also knows what the
// GEMM scheduler would choose for a plan without calls, and what the rows of padding cost in the
// other operators.
#pragma once

#include "plan/plan.h"

namespace itif::plan {

class PlanPricer {
 public:
  virtual ~PlanPricer() = default;
  // Both functions: one thread at a time; allocate nothing.
  // Returns the predicted time of all passes, ns.
  virtual double price_ns(const Plan& plan) noexcept = 0;
  // Returns true if the plan has work that the cost tables do not know: GEMMs that are joined, or
  // updates of adapters.
  virtual bool has_unknown_work(const Plan&) noexcept { return false; }
};

}  // namespace itif::plan
