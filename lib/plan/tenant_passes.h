// Limits the tenants of a pass, for any planner.
//
// Some backbones run the same layer many times (ALBERT). Between these runs, a CPU keeps one
// tenant's layer in its cache, but not the layers of many tenants: a pass over all of them reads
// every weight from memory again in each layer. Such groups set PlanLimits::max_pass_tenants
// (runtime/cost/pass_tenants.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/planner.h"

namespace itif::plan {

// Divides a batch by tenants, has another planner plan each part, and joins the plans. Tenants are
// in the order of their first items, so that what the batch policy put first is answered first.
class TenantPasses final : public Planner {
 public:
  // REQUIRES: limits.max_pass_tenants > 0; `planner` has the same max_requests and max_rows, and
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
  void append(const Plan& part, std::span<const Ranked> items, Plan& plan) const noexcept;

  const std::unique_ptr<Planner> planner_;
  const uint32_t max_pass_tenants_;
  std::vector<Ranked> ranked_;
  std::vector<Item> items_;  // of one part
  Plan part_;
};

}  // namespace itif::plan
