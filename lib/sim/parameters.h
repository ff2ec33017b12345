// The keys of a scenario that a sweep may vary.
#pragma once

#include <string>

#include "base/error.h"
#include "sim/scenario.h"

namespace itif::sim {

// Sets one key, as "arrivals.rate" to "350". Errors: kInvalidArgument: no number, or no such key;
// lists the keys.
Status set_parameter(Scenario& scenario, const std::string& key, const std::string& value);

}  // namespace itif::sim
