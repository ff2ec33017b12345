// GSLICE's Figures 8 to 10, 12a, 12b and 14 from the rows of the benches slices, slab and
// components.
#pragma once

#include <vector>

#include "report/figure.h"
#include "report/results.h"

namespace itif::bench {

// Adds the figures of one bench; none for other benches.
void gslice_figures(const Results& results, std::vector<Figure>& figures);

}  // namespace itif::bench
