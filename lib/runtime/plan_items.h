// The requests of a batch as a planner takes them, with the rows and slots that the batch policy
// has filled. One owner thread. Allocates only in the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/tenant_model.h"
#include "plan/planner.h"
#include "request/request.h"
#include "sched/batch_limits.h"
#include "sched/batch_policy.h"

namespace itif::runtime {

// Returns the rows that a policy may fill for the planner: one of any length if the planner has no
// rows of a fixed length.
inline sched::BatchRows rows_of(const plan::Planner& planner) noexcept {
  const auto rows = planner.rows();
  return rows ? sched::BatchRows{.number = rows->number, .tokens = rows->tokens}
              : sched::BatchRows{};
}

// Returns the adapter of the tenant in `slot` (plan::Item::adapter): its slot, if it has an adapter
// that is not merged into its weights.
inline uint32_t adapter_of(const model::TenantModel& tenant, uint32_t slot) noexcept {
  return tenant.adapter_bytes > 0 ? slot : plan::kNoAdapter;
}

class PlanItems {
 public:
  explicit PlanItems(size_t max_requests) {
    items_.reserve(max_requests);
    rows_.reserve(max_requests);
    slots_.reserve(max_requests);
  }

  // Begins a batch of requests of that choice.
  void begin(const sched::Choice& choice) noexcept {
    items_.clear();
    rows_.clear();
    slots_.clear();
    has_rows_ = choice.has_rows;
    slot_tokens_ = choice.slot_tokens;
  }
  // `weight_slot`: TenantModel::weight_slot, so that tenants of equal weights are planned as one.
  // `order`: Group::weight_order(). `adapter`: adapter_of() the tenant.
  // REQUIRES: at most max_requests a batch.
  void add(const request::Request& request, uint32_t weight_slot, uint32_t order,
           uint32_t adapter = plan::kNoAdapter) noexcept {
    items_.push_back({weight_slot, request.num_tokens, order, adapter});
    if (has_rows_) rows_.push_back(request.row);
    if (slot_tokens_ > 0) slots_.push_back(request.row_slot);
  }
  // Replaces `plan`. Item i is the i-th request that was added.
  void plan(plan::Planner& planner, plan::Plan& plan) const noexcept {
    planner.plan_rows(items_, {.rows = rows_, .slots = slots_, .slot_tokens = slot_tokens_}, plan);
  }

 private:
  std::vector<plan::Item> items_;
  std::vector<uint32_t> rows_, slots_;  // of each item; empty: the planner fills them
  bool has_rows_ = false;
  uint32_t slot_tokens_ = 0;
};

}  // namespace itif::runtime
