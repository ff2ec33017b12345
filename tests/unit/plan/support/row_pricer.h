// A pricer that counts rows and calls, for tests.
#pragma once

#include "plan/plan_pricer.h"

namespace itif::plan {

class RowPricer final : public PlanPricer {
 public:
  double price_ns(const Plan& plan) noexcept override {
    return static_cast<double>(plan.num_rows + 20 * plan.calls.size());
  }
};

}  // namespace itif::plan
