// Why our figures differ from TCB's: found in the runs of conf/sim/tcb.cfg, for the report.
#pragma once

#include <string>
#include <string_view>

namespace itif::sim {

// Returns the text for an experiment by its name; empty: there is none.
std::string difference_of(std::string_view experiment);

}  // namespace itif::sim
