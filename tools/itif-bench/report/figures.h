// Figures of the thesis and of GSLICE, and further ones, from the rows of a run of the benches.
#pragma once

#include <span>
#include <vector>

#include "report/figure.h"
#include "report/results.h"

namespace itif::bench {

// Makes the figures for each element type that was measured. Omits panels and figures without rows.
std::vector<Figure> make_figures(std::span<const Results> all);

}  // namespace itif::bench
