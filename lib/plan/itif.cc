// ITIF's two stages: mini-batches within each tenant (tenant_batching.h), then BatchedGEMMs of
// mini-batches of all tenants (operator_batching.h).
//
// Each stage is optimal, but the two in sequence need not be. The first does not know what the
// second could merge: it may divide two tenants differently where equal mini-batches would have
// shared a call. (All batches of 4 and 5 requests of 3 tenants, against the best of all plans: 9 %
// above it on average where a launch costs as much as 12 rows, up to twice where only launches cost
// anything.) So the conventional plan, with all requests padded to the longest, also goes through
// the second stage, and the cheaper plan is used. By the tables, this planner is never worse than
// naive or turbo.
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
        two_stages_(limits_.max_requests),
        longest_(limits_.max_requests) {}

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan.clear();
    order_.sort(items);
    tenants_.divide(order_, two_stages_.batches);
    two_stages_.cost_ns = operators_.pack(two_stages_.batches, two_stages_.ends);
    pad_to_longest(order_, limits_.max_rows, longest_.batches);
    longest_.cost_ns = operators_.pack(longest_.batches, longest_.ends);

    const Candidate& best = longest_.cost_ns < two_stages_.cost_ns ? longest_ : two_stages_;
    uint32_t first = 0;
    for (const uint32_t end : best.ends) {
      append_call(order_, std::span(best.batches).subspan(first, end - first), limits_.max_rows,
                  plan);
      first = end;
    }
    plan.cost_ns = best.cost_ns;
  }

 private:
  struct Candidate {
    explicit Candidate(uint32_t max_requests) {
      batches.reserve(max_requests);
      ends.reserve(max_requests);
    }
    std::vector<PaddedBatch> batches;
    std::vector<uint32_t> ends;
    double cost_ns = 0;
  };

  const PlanLimits limits_;
  const CostModel costs_;
  RequestOrder order_;
  TenantBatching tenants_;
  OperatorBatching operators_;
  Candidate two_stages_, longest_;
};

}  // namespace

PlannerKind itif_planner() {
  return {.make = make_planner_of<Itif>, .needs_tables = true};
}

}  // namespace itif::plan
