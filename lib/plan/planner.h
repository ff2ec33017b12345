// Lays out batches. A planner is one file and one name in meson.build's list; make_planner.h makes
// it.
//
// A planner belongs to one thread. It may be replaced between batches: a plan does not refer to its
// planner.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "plan/cost_tables.h"
#include "plan/plan.h"
#include "plan/plan_pricer.h"

namespace itif::plan {

class Planner {
 public:
  virtual ~Planner() = default;
  // Replaces `plan`. The same items give the same plan. Allocates nothing once `plan` has room for
  // max_requests. REQUIRES: at most max_requests items, each as Item says.
  virtual void plan(std::span<const Item> items, Plan& plan) noexcept = 0;
  // Its name in planner_names.h. Valid for ever.
  std::string_view name() const noexcept { return name_; }

 private:
  friend Result<std::unique_ptr<Planner>> make_planner(std::string_view name,
                                                       const struct PlannerOptions& options);
  std::string_view name_;
};

struct PlannerOptions {
  PlanLimits limits = {};
  // Read only while the planner is made. Planners that choose by cost need them; naive uses them,
  // if given, to predict its cost.
  const CostTables* tables = nullptr;
  // Needed by auto alone.
  std::shared_ptr<PlanPricer> pricer = nullptr;
};

// Largest batch of the padding planners, in requests: their time is quadratic in it.
inline constexpr uint32_t kMaxPaddedRequests = 4096;

}  // namespace itif::plan
