// Limits the tenants of a pass and their tokens, for any planner: PlanLimits::max_pass_tenants and
// max_shared_tokens. CPUs need both, for their caches (runtime/cost/pass_limits.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/planner.h"

namespace itif::plan {

// Divides a batch by tenants, has another planner plan each part, and joins the plans. A part has
// as many tenants as the limits allow, in the order of their first items, so that what the batch
// policy put first is answered first. A tenant is never divided.
class TenantPasses final : public Planner {
 public:
  // REQUIRES: limits has one of both limits; `planner` has the same max_requests and max_rows, and
  // makes no offers.
  TenantPasses(std::unique_ptr<Planner> planner, const PlanLimits& limits);

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    plan_rows(items, {}, plan);
  }
  // Ignores the rows of `choice`, because the passes divide rows of several tenants: rows() offers
  // a policy none. The size of slots is kept.
  void plan_rows(std::span<const Item> items, const RowChoice& choice,
                 Plan& plan) noexcept override;

 private:
  struct Ranked {
    uint32_t rank = 0;  // of the tenant, by its first item
    uint32_t item = 0;
  };
  void rank(std::span<const Item> items) noexcept;
  // The end of the part that begins at `first` of ranked_.
  size_t part_end(std::span<const Item> items, size_t first) const noexcept;
  void append(const Plan& part, std::span<const Ranked> items, Plan& plan) const noexcept;

  const std::unique_ptr<Planner> planner_;
  const uint32_t max_pass_tenants_, max_shared_tokens_;  // UINT32_MAX: any number
  std::vector<Ranked> ranked_;
  std::vector<Item> items_;  // of one part
  Plan part_;
};

}  // namespace itif::plan
