// The packed planner: tokens of all requests of a batch end to end, no padding, requests of a tenant
// beside each other so that each GEMM weight is applied to one range of rows.
//
// ITIF carries the layout in a linked list so that batching reorders locations and never memory; here
// it is an array of segments sorted by position (ITIF section 3.3.1; docs: the same fields, flat).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace itif::plan {

struct Item {
  uint32_t slot = 0;
  uint32_t num_tokens = 0;
};

// A request's place in the batch.
struct Segment {
  uint32_t item = 0;  // index into the planner's input
  uint32_t slot = 0;
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
};

// Segments ordered by slot, then by input order; rows [0, T) without a gap. `segments` is replaced.
// O(n log n); allocates only if `segments` has to grow.
void plan_packed(std::span<const Item> items, std::vector<Segment>& segments);

}  // namespace itif::plan
