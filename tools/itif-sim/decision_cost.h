// The time of a batch policy's decision on this CPU. The simulation runs the policy but counts no
// time for it.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "sim/scenario.h"

namespace itif::sim {

// Returns the median of many decisions for the scenario's batches, with num_waiting requests of its
// lengths and deadlines waiting. Errors: kInvalidArgument: no such policy or planner.
Result<double> decision_ns(const Scenario& scenario, uint32_t num_waiting);

}  // namespace itif::sim
