// Draws the groups of a run over time: their parts of the device, arrivals, batches, throughput and
// latency, as GSLICE's Figures 15 and 16 do.
#pragma once

#include <string>

#include "report/figure.h"
#include "report/time_line.h"
#include "sim/figures.h"

namespace itif::sim {

// REQUIRES, of both: the run has a time line.
bench::TimeLine time_line_of(const std::string& name, const std::string& title,
                             const Results& results);
bench::Figure time_line_figure(const std::string& name, const std::string& title,
                               const Results& results);

}  // namespace itif::sim
