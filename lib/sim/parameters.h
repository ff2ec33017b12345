// Sets single keys of a scenario, for sweeps.
#pragma once

#include <string>

#include "base/error.h"
#include "sim/scenario.h"

namespace itif::sim {

// Sets a key of scenario files, as "arrivals.rate" to "350" or "deadlines.from" to "20ms", or
// "num_tenants": so many tenants with the settings of the first. Errors: kInvalidArgument: no such
// key, or a value that the file may not have. They begin with the key.
Status set_parameter(Scenario& scenario, const std::string& key, const std::string& value);

}  // namespace itif::sim
