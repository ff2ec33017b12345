// Places the shares of a device's streams on the steps of its ladder, side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace itif::device::cuda {

// Adjacent steps of the ladder.
struct Run {
  uint32_t first = 0, count = 0;
  bool operator==(const Run&) const = default;
};

// Returns a run for each share, in their order. No two overlap, and each has at least one step. If
// there are more shares than steps, streams use steps together. Shares of more than 100 % in all
// shrink in proportion. Rounding leaves no step unused that the shares' sum covers: the largest
// remainders get the steps that are left. REQUIRES: num_steps > 0; each share is above 0.
std::vector<Run> place(std::span<const double> percents, uint32_t num_steps);

}  // namespace itif::device::cuda
