// ITIF's two stages, as the thesis has them: mini-batches within each tenant (tenant_batching.h),
// then BatchedGEMMs of mini-batches of all tenants (operator_batching.h).
//
// Each stage is optimal, but the two in sequence need not be. The first ignores which mini-batches
// the second can merge: it may divide two tenants differently where equal mini-batches would have
// shared a call. joint.cc decides both together.
#include "plan/call_layout.h"
#include "plan/operator_batching.h"
#include "plan/planner_kind.h"
#include "plan/tenant_batching.h"

namespace itif::plan {
namespace {

class Itif final : public Planner {
 public:
  explicit Itif(const PlannerOptions& options)
      : limits_(options.limits),
        costs_(*options.tables, limits_.max_requests),
        order_(limits_),
        tenants_(costs_, limits_),
        operators_(costs_, limits_),
        calls_(limits_) {
    batches_.reserve(limits_.max_requests);
    ends_.reserve(limits_.max_requests);
  }

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan.clear();
    order_.sort(items);
    tenants_.divide(order_, batches_);
    operators_.pack(batches_, ends_);
    calls_.append(order_, batches_, ends_, costs_, plan);
  }

 private:
  const PlanLimits limits_;
  const CostModel costs_;
  RequestOrder order_;
  TenantBatching tenants_;
  OperatorBatching operators_;
  CallLayout calls_;
  std::vector<PaddedBatch> batches_;
  std::vector<uint32_t> ends_;
};

}  // namespace

PlannerKind itif_planner() {
  return {.make = make_planner_of<Itif>, .needs_tables = true};
}

}  // namespace itif::plan
