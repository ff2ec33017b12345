// Cost tables for tests, and their costs by plain indexing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/cost_tables.h"

namespace itif::plan {

// Returns tables with a bucket for each of `lengths` and for every batch, count and size up to
// max_requests, so that nothing is interpolated.
CostTables full_tables(
    const std::vector<uint32_t>& lengths, uint32_t max_requests,
    const std::function<double(uint32_t length, uint32_t batch)>& gemm,
    const std::function<double(uint32_t length, uint32_t count, uint32_t size)>& batched_gemm);

struct NamedTables {
  std::string name;
  bool monotone;  // in length
  CostTables tables;
};
// Returns tables that planners may handle wrongly: launches that are free or very expensive,
// stepwise costs, BatchedGEMMs that are free, never pay or do not exist, and random costs.
std::vector<NamedTables> many_tables(const std::vector<uint32_t>& lengths, uint32_t max_requests);

// Return a cell of the tables. REQUIRES: the axes hold these values.
double gemm_ns(const CostTables& tables, uint32_t length, uint32_t batch);
double batched_gemm_ns(const CostTables& tables, uint32_t length, uint32_t count, uint32_t size);

}  // namespace itif::plan
