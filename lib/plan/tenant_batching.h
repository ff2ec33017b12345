// ITIF's first stage: divides each tenant's requests into padded mini-batches.
//
// Source: ITIF, Algorithm 1 and equation 4.1:
//   state[i] = min over 0 < j ≤ i of state[j - 1] + A[length of request i][i - j + 1]
// with a tenant's requests in ascending order of length: request i sets the padding of j … i. This
// is TurboTransformers' batch scheduler, applied to each tenant. There A holds the cost per
// request, and the second term is multiplied by i - j + 1.
//
// Optimal over all divisions into consecutive mini-batches. Optimal over all divisions if A never
// falls with length (make_monotone()).
//
// We follow equation 4.1 where the printed algorithm cannot be right:
//  - N is the number of all requests, but indexes one tenant's requests. We use the number of that
//    tenant's requests.
//  - state[t][0] is read and never set. We use 0.
//  - The linked list is updated for each i within the loop, before start_id is known to be part of
//    the optimum. We keep the starts and follow them back from the last request.
// Added: mini-batches that do not fit the workspace are not considered.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "plan/padded.h"

namespace itif::plan {

class TenantBatching {
 public:
  // `costs` outlives this.
  TenantBatching(const CostModel& costs, const PlanLimits& limits);

  // Replaces `batches`: tenants in the order of `order`, mini-batches of a tenant by ascending
  // length. Returns the sum of their costs, ns. Allocates nothing within max_requests. O(Σ n²) for
  // n requests of a tenant.
  //
  // `shared_by` > 1 (beyond the thesis): a mini-batch costs its share of a BatchedGEMM over so many
  // mini-batches of its size, where that is cheaper and fits.
  double divide(const RequestOrder& order, std::vector<PaddedBatch>& batches,
                uint32_t shared_by = 1) noexcept;

 private:
  double divide_tenant(const RequestOrder& order, uint32_t first, uint32_t end, uint32_t shared_by,
                       std::vector<PaddedBatch>& batches) noexcept;

  const CostModel& costs_;
  const PlanLimits limits_;
  std::vector<double> state_;    // [n + 1]: the least cost of the first i requests
  std::vector<uint32_t> start_;  // [n + 1]: how many of them precede the last mini-batch
};

}  // namespace itif::plan
