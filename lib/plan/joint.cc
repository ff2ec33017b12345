// Finds the cheapest plan that calls of padded mini-batches allow: decides both of ITIF's stages
// together. This goes beyond the thesis, whose first stage ignores which mini-batches the second
// can merge.
//
// First come the plans of a few runs of ITIF's stages: the two stages as they are; with
// BatchedGEMM, for s = 2, 4, 8, …, a first stage that prices a mini-batch as one of s in a
// BatchedGEMM; and all requests padded to the longest. Then JointSearch looks for a cheaper plan.
// It ends with the optimum if that takes at most kMaxPlanningShare of the time that the batch needs
// by the tables; otherwise the best of the first plans is used. By the tables, this planner is
// never worse than naive, turbo or itif.
//
// The tables do not know which layers tenants have in common, nor adapters. Separate calls of such
// tenants run joined, and can take less time than the BatchedGEMM that the tables prefer. With a
// pricer, the cheapest of all these plans by its prices is then used, and turbo's plan is one of
// them.
#include <limits>
#include <memory>

#include "plan/call_layout.h"
#include "plan/joint_search.h"
#include "plan/operator_batching.h"
#include "plan/planner_kind.h"
#include "plan/tenant_batching.h"

namespace itif::plan {
namespace {

constexpr double kMaxPlanningShare = 0.01;
constexpr double kStepNs = 10;  // time of a step of the search, measured by `itif-bench plan`

class Joint final : public Planner {
 public:
  explicit Joint(const PlannerOptions& options)
      : limits_(options.limits),
        costs_(*options.tables, limits_.max_requests),
        order_(limits_),
        tenants_(costs_, limits_),
        operators_(costs_, limits_),
        search_(costs_, limits_),
        calls_(limits_),
        pricer_(options.pricer),
        best_(limits_.max_requests),
        next_(limits_.max_requests) {
    if (pricer_) priced_.reserve(limits_.max_requests);
  }

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan.clear();
    order_.sort(items);
    if (order_.size() == 0) return;
    tenants_.divide(order_, best_.batches);
    begin_offers(plan);
    best_.cost_ns = operators_.pack(best_.batches, best_.ends);
    offer(best_, plan);
    if (costs_.has_batched_gemm()) {
      for (uint32_t shared_by = 2; shared_by <= order_.size(); shared_by *= 2) {
        tenants_.divide(order_, next_.batches, shared_by);
        keep_cheaper(plan);
      }
    }
    pad_to_longest(order_, limits_.max_rows, next_.batches);
    keep_cheaper(plan);
    const double max_steps = kMaxPlanningShare / kStepNs * best_.cost_ns;
    best_.cost_ns = search_.improve(order_, best_.cost_ns, static_cast<uint64_t>(max_steps),
                                    best_.batches, best_.ends);
    if (compares_prices_) return offer(best_, plan);
    calls_.append(order_, best_.batches, best_.ends, costs_, plan);
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

  // Decides whether prices are compared. If so, offers a call for each of the first batches.
  void begin_offers(Plan& plan) noexcept {
    compares_prices_ = false;
    if (!pricer_) return;
    priced_.clear();
    append_separate_calls(order_, best_.batches, limits_.max_rows, &costs_, priced_);
    compares_prices_ = pricer_->has_unknown_work(priced_);
    price_ns_ = std::numeric_limits<double>::infinity();
    if (compares_prices_) keep_priced(plan);
  }
  // If prices are compared: makes `plan` the candidate's if that costs less. Reorders batches
  // within calls.
  void offer(Candidate& candidate, Plan& plan) noexcept {
    if (!compares_prices_) return;
    priced_.clear();
    calls_.append(order_, candidate.batches, candidate.ends, costs_, priced_);
    keep_priced(plan);
  }
  void keep_priced(Plan& plan) noexcept {
    const double price_ns = pricer_->price_ns(priced_);
    if (price_ns >= price_ns_) return;
    price_ns_ = price_ns;
    std::swap(plan, priced_);
  }

  void keep_cheaper(Plan& plan) noexcept {
    next_.cost_ns = operators_.pack(next_.batches, next_.ends);
    offer(next_, plan);
    if (next_.cost_ns < best_.cost_ns) std::swap(next_, best_);
  }

  const PlanLimits limits_;
  const CostModel costs_;
  RequestOrder order_;
  TenantBatching tenants_;
  OperatorBatching operators_;
  JointSearch search_;
  CallLayout calls_;
  const std::shared_ptr<PlanPricer> pricer_;
  bool compares_prices_ = false;  // of the present batch
  Plan priced_;                   // the last candidate's
  double price_ns_ = 0;           // of the cheapest so far
  Candidate best_, next_;
};

}  // namespace

PlannerKind joint_planner() {
  return {.make = make_planner_of<Joint>, .needs_tables = true};
}

}  // namespace itif::plan
