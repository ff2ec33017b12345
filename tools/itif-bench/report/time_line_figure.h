// Draws a measurement over time.
#pragma once

#include <string>

#include "report/figure.h"
#include "report/time_line.h"

namespace itif::bench {

// A panel for each quantity that was measured. `bench`: Figure::bench.
Figure time_line_figure(const TimeLine& line, const std::string& bench);

}  // namespace itif::bench
