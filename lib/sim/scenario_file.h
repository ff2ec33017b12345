// Reads scenario files: libconfig, with the keys of conf/sim/example.cfg.
#pragma once

#include <string>

#include "base/error.h"
#include "sim/scenario.h"

namespace itif::sim {

// Errors: kNotFound (no such file), kInvalidArgument (syntax, an unknown key, a wrong type, a value
// out of range, a contradiction), with file and line or key.
Result<Scenario> load_scenario(const std::string& path);
// Replaces the fields whose keys `text` sets: settings as in a scenario file. Errors:
// kInvalidArgument, as load_scenario() without file and line.
Status change_scenario(const std::string& text, Scenario& scenario);

}  // namespace itif::sim
