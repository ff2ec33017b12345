// Optimal plans by exhaustive search, the reference for the planners. Shares no code with them and
// reads costs by plain indexing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "plan/cost_tables.h"
#include "plan/plan.h"

namespace itif::plan {

// Calls `visit` with every division of 0 … n - 1 into groups: group_of[i] is the group of i, and
// groups count from 0 in order of their least member. With `consecutive`, groups are runs of
// neighbours.
void for_each_division(
    uint32_t n, bool consecutive,
    const std::function<void(std::span<const uint32_t> group_of, uint32_t num_groups)>& visit);

// Returns the least cost of one tenant's requests as separate padded GEMMs, over all divisions
// (consecutive: into runs of neighbours by length).
double least_tenant_cost(const CostTables& tables, std::vector<uint32_t> lengths, uint32_t max_rows,
                         bool consecutive);

struct Shape {
  uint32_t length = 0;
  uint32_t size = 0;
};
// Returns the least cost of mini-batches, each alone or padded in a BatchedGEMM with others of its
// size.
double least_call_cost(const CostTables& tables, std::vector<Shape> shapes, uint32_t max_rows,
                       bool consecutive);

// Returns the least cost of all plans of calls of padded mini-batches: every division of every
// tenant's requests, then every division of those mini-batches into calls. Remembers the costs of
// mini-batches that it has met before.
class LeastPlanCost {
 public:
  LeastPlanCost(const CostTables& tables, uint32_t max_rows)
      : tables_(tables), max_rows_(max_rows) {}
  double of(const std::vector<Item>& items);

 private:
  const CostTables& tables_;
  const uint32_t max_rows_;
  std::map<std::vector<std::pair<uint32_t, uint32_t>>, double> known_;  // by length and size
};

// Returns the cost of a plan's calls by the tables.
double cost_of(const CostTables& tables, const Plan& plan);
std::vector<Shape> mini_batch_shapes(const Plan& plan);

// Visits every batch of 1 … max_requests requests of these lengths and slots 0 … num_tenants - 1.
// Batches that differ only in the order of their requests count once.
void for_each_batch(uint32_t max_requests, const std::vector<uint32_t>& lengths,
                    uint32_t num_tenants,
                    const std::function<void(const std::vector<Item>&)>& visit);

}  // namespace itif::plan
