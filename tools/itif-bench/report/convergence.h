// How fast a batch control finds its size again after a step: GSLICE's Figure 12c.
#pragma once

#include <cstdint>
#include <vector>

namespace itif::bench {

// A batch, as its requests show it.
struct BatchSeen {
  uint64_t begun_ns = 0, done_ns = 0;
  uint32_t num_requests = 0;
};

// Returns the time in ms from `from_ns` to the end of the first of three batches in a row whose
// sizes are within a tenth, or one request, of the mean size in the second half of the time until
// `until_ns`. A size that is only passed does not count. The whole time if there are no such
// batches.
double convergence_ms(const std::vector<BatchSeen>& batches, uint64_t from_ns, uint64_t until_ns);

}  // namespace itif::bench
