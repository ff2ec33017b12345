// Padded mini-batches, and the layout of their calls in a plan. Used by naive, turbo, itif and
// joint.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cost_model.h"
#include "plan/plan.h"
#include "plan/request_order.h"

namespace itif::plan {

// Requests [first, first + size) of a RequestOrder, all of one tenant, padded to `length`.
struct PaddedBatch {
  uint32_t first = 0;
  uint32_t size = 0;
  uint32_t length = 0;
};

// Replaces `batches`: one per tenant, all padded to the longest request. A tenant whose requests do
// not fit one pass gets several.
void pad_to_longest(const RequestOrder& order, uint32_t max_rows,
                    std::vector<PaddedBatch>& batches) noexcept;

// Appends one call for `batches`, padded to the longest of them. Opens a pass if the last one has
// no room. Sets Plan::has_fixed_calls. `costs` predicts the call's cost; nullptr: unknown.
// REQUIRES: the batches have equal sizes, and the call has at most max_rows rows.
void append_call(const RequestOrder& order, std::span<const PaddedBatch> batches, uint32_t max_rows,
                 const CostModel* costs, Plan& plan) noexcept;

// Appends a call for each mini-batch.
void append_separate_calls(const RequestOrder& order, std::span<const PaddedBatch> batches,
                           uint32_t max_rows, const CostModel* costs, Plan& plan) noexcept;

}  // namespace itif::plan
