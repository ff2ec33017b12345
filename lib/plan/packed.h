// The packed planner: lays the tokens of all requests end to end, without padding. A tenant's
// requests are adjacent, so that each GEMM weight applies to one range of rows. Needs no tables. No
// layout has fewer rows; only padded ones can have fewer calls (BatchedGEMMs). The default.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace itif::plan {

// Replaces `segments`: one per item, by Item::rank(), then slot, then input order, end to end from
// row 0. Ignores passes. O(n log n); allocates only if `segments` must grow.
void plan_packed(std::span<const Item> items, std::vector<Segment>& segments);

}  // namespace itif::plan
