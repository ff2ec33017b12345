// The packed planner: tokens of all requests of a batch end to end, no padding, requests of a tenant
// beside each other so that each GEMM weight is applied to one range of rows. Needs no tables: by
// construction no other layout has fewer rows or fewer GEMMs. The default.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace itif::plan {

// Segments ordered by slot, then by input order; rows [0, T) without a gap. `segments` is replaced.
// O(n log n); allocates only if `segments` has to grow.
void plan_packed(std::span<const Item> items, std::vector<Segment>& segments);

}  // namespace itif::plan
