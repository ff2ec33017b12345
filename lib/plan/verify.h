// Checks the invariants of a plan (plan.h), for tests and for benches before they time anything.
#pragma once

#include <span>

#include "base/error.h"
#include "plan/plan.h"

namespace itif::plan {

// Errors: kInternal, naming the first violation.
Status verify(const Plan& plan, std::span<const Item> items, const PlanLimits& limits);

}  // namespace itif::plan
