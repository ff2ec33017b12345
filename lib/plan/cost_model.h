// Costs of any shape, interpolated from tables of some shapes. Planners query it in their inner
// loops.
//
// Linear between measured points. Below the first point: the first's cost, because no GEMM call is
// free. Beyond the last: in proportion to the work, so that unmeasured shapes do not look cheap. At
// a measured point: exactly the measured cost. Monotone where the tables are.
//
// Batches, counts and sizes are interpolated at construction, for every value that a batch of
// max_requests can hold. Only lengths are interpolated while planning. Immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_tables.h"

namespace itif::plan {

// Costs of one length, by number of requests or of mini-batches.
struct CostRow {
  const double* lower = nullptr;
  const double* upper = nullptr;
  double lower_weight = 0;
  double upper_weight = 0;

  double operator[](uint32_t number) const noexcept {
    return lower_weight * lower[number] + upper_weight * upper[number];
  }
};

class CostModel {
 public:
  // REQUIRES: validate(tables), 1 ≤ max_requests ≤ 2^16. Takes 8 bytes · lengths · max_requests for
  // A and about log(max_requests) times that for B.
  CostModel(const CostTables& tables, uint32_t max_requests);

  // A[length][batch], batch in [1, max_requests].
  CostRow gemm(uint32_t length) const noexcept;
  // B[length][count][size], count in [2, max_requests / size]. REQUIRES: has_batched_gemm().
  CostRow batched_gemm(uint32_t length, uint32_t size) const noexcept;
  bool has_batched_gemm() const noexcept { return !batched_gemm_.empty(); }
  // Cost of a call: A for one mini-batch, B for more.
  double call_ns(uint32_t length, uint32_t count, uint32_t size) const noexcept {
    return count == 1 ? gemm(length)[size] : batched_gemm(length, size)[count];
  }

 private:
  std::vector<uint32_t> lengths_;
  std::vector<double> gemm_;           // [lengths, max_requests + 1], by batch
  std::vector<double> batched_gemm_;   // [lengths, batched_stride_], by size, then count
  std::vector<uint32_t> size_offset_;  // [max_requests + 1]: offset of each size's counts
  size_t gemm_stride_ = 0;
  size_t batched_stride_ = 0;
};

}  // namespace itif::plan
