// ITIF's second stage: mini-batches of any tenants packed into BatchedGEMMs.
//
// Source: ITIF, Algorithm 2 and equation 4.2:
//   state[i] = min over 0 < j ≤ i of state[j - 1] + B[cur_length][i - j + 1][size of mini-batch i]
// over mini-batches of one size in ascending order of length; a call of a single one is a GEMM and
// costs A[cur_length][size].
//
// Optimal over all divisions into consecutive calls, and over all divisions whatsoever if A and B never
// fall with length (make_monotone()).
//
// The printed algorithm contradicts itself and the text. What is done here, and why:
//  - "Identical shape". A BatchedGEMM needs it, and section 4.1.2 admits mini-batches of identical
//    shape; but line 8 compares sizes only, equation 4.2 charges all at one cur_length, section 3.3.1
//    pads the shorter ones in this stage too, and afterwards "the input length after padding" is
//    updated. So: equal size, and lengths padded up to the longest of the call where that is cheaper.
//    With lengths equal nothing is padded; with none that pay, each stays a GEMM of its own.
//  - Line 2 sorts by length alone, which would separate equal sizes by others in between: sorted by
//    size, then length, so that every run of equal size is whole.
//  - Line 8, `size / size == 0`, never holds for equal sizes: the run goes on while sizes are equal.
//  - Lines 13–21 count with the outer loop's i from the first mini-batch again, and `while j ← 0` is
//    neither test nor step: here the recurrence runs once over the run, j from i down to 1, as
//    equation 4.2 says. min_cost in line 11 is `optimal`.
//  - state[-1] (line 7 for i = 0) is the empty start: 0.
//  - B is declared with two dimensions and read with three: three.
// Added: a call that would not fit the workspace is no choice.
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

  // Sorts `batches` and replaces `ends`: call c takes batches [ends[c - 1], ends[c]), the first from
  // 0. Returns the calls' cost. Allocates nothing within max_requests. O(Σ m²) for m mini-batches of
  // a size.
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
