// TurboTransformers' batch scheduler: batches requests of similar lengths, by dynamic programming
// over profiled costs. It knows one model, so a batch is planned tenant by tenant, with one GEMM
// per mini-batch: ITIF's first stage without the second.
//
// Source: Fang et al., "TurboTransformers: an efficient GPU serving system for transformer models",
// PPoPP 2021, Algorithm 2.
#include "plan/planner_kind.h"
#include "plan/tenant_batching.h"

namespace itif::plan {
namespace {

class Turbo final : public Planner {
 public:
  explicit Turbo(const PlannerOptions& options)
      : limits_(options.limits),
        costs_(*options.tables, limits_.max_requests),
        order_(limits_),
        tenants_(costs_, limits_) {
    batches_.reserve(limits_.max_requests);
  }

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan.clear();
    order_.sort(items);
    tenants_.divide(order_, batches_);
    append_separate_calls(order_, batches_, limits_.max_rows, &costs_, plan);
  }

 private:
  const PlanLimits limits_;
  const CostModel costs_;
  RequestOrder order_;
  TenantBatching tenants_;
  std::vector<PaddedBatch> batches_;
};

}  // namespace

PlannerKind turbo_planner() {
  return {.make = make_planner_of<Turbo>, .needs_tables = true};
}

}  // namespace itif::plan
