// ITIF's second stage: mini-batches of any tenants packed into BatchedGEMMs.
//
// Source: ITIF, Algorithm 2 and equation 4.2:
//   state[i] = min over 0 < j ≤ i of state[j - 1] + B[cur_length][i - j + 1][size of mini-batch i]
// over mini-batches of one size in ascending order of length. A call of one mini-batch is a GEMM
// and costs A[cur_length][size].
//
// Optimal over all divisions into consecutive calls. Optimal over all divisions if A and B never
// fall with length (make_monotone()).
//
// The printed algorithm contradicts itself and the text. We do the following:
//  - "Identical shape": a BatchedGEMM needs it, and section 4.1.2 admits mini-batches of identical
//    shape. But line 8 compares only sizes, equation 4.2 charges all at one cur_length, section
//    3.3.1 pads the shorter ones in this stage too, and afterwards "the input length after padding"
//    is updated. We require equal sizes, and pad lengths up to the longest of the call if that is
//    cheaper. Equal lengths need no padding; mini-batches that gain nothing stay separate GEMMs.
//  - Line 2 sorts by length alone, which would scatter equal sizes. We sort by size, then length:
//    each run of equal size is contiguous.
//  - Line 8, `size / size == 0`, never holds for equal sizes. We continue the run while sizes are
//    equal.
//  - Lines 13–21 restart the outer loop's i at the first mini-batch, and `while j ← 0` is neither
//    test nor step. We evaluate the recurrence once over the run, j from i down to 1, as equation
//    4.2 says. Line 11 reads `min_cost`, which nothing sets. We use `optimal`.
//  - state[-1] (line 7 for i = 0) is the empty start: 0.
//  - B is declared with two dimensions and read with three. We use three.
// Added: calls that do not fit the workspace are not considered.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "plan/padded.h"

namespace itif::plan {

class OperatorBatching {
 public:
  // `costs` outlives this.
  OperatorBatching(const CostModel& costs, const PlanLimits& limits);

  // Sorts `batches` and replaces `ends`: call c takes batches [ends[c - 1], ends[c]), and call 0
  // starts at 0. Returns the calls' cost. Allocates nothing within max_requests. O(Σ m²) for m
  // mini-batches of each size.
  double pack(std::vector<PaddedBatch>& batches, std::vector<uint32_t>& ends) noexcept;

 private:
  double pack_run(const std::vector<PaddedBatch>& batches, uint32_t first, uint32_t end,
                  std::vector<uint32_t>& ends) noexcept;

  const CostModel& costs_;
  const PlanLimits limits_;
  std::vector<double> state_;
  std::vector<uint32_t> start_;
};

}  // namespace itif::plan
