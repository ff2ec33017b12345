// The benches that run a program of tools/, which starts whole appliances, and report its figures
// like those of the other benches.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "benches.h"

namespace itif::bench {

// Runs tools/bench-NAME with the options that the programs share and with options.more. Returns its
// document; null if it wrote none, since no case has a wanted name. Errors: kNotFound, no such
// program; kInternal, it failed; kCorrupt.
Result<nlohmann::json> run_script(const std::string& name, const BenchOptions& options);

}  // namespace itif::bench
