// The packed planner: lays the tokens of all requests end to end, without padding. A tenant's
// requests are adjacent, so that each GEMM weight applies to one range of rows. Needs no tables: no
// other layout has fewer rows or fewer GEMMs. The default.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace itif::plan {

// Replaces `segments`, ordered by Item::rank(), then by input order, on rows [0, T) without a gap.
// O(n log n); allocates only if `segments` must grow.
void plan_packed(std::span<const Item> items, std::vector<Segment>& segments);

}  // namespace itif::plan
