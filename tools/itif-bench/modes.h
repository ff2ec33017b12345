// One workload by every execution mode: measured one after another, for their weights together would
// not fit, and checked against each other.
#pragma once

#include <map>
#include <string>

#include "execution.h"
#include "timing.h"

namespace itif::bench {

// By mode. Errors: those of make_execution; kInternal, a mode that computes something else than the
// others.
Result<std::map<std::string, Samples>> measure_modes(const Workload& workload,
                                                     const Effort& effort);

// The workload's GEMMs alone.
Samples measure_floor(const Workload& workload, const Effort& effort);

}  // namespace itif::bench
