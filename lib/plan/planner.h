// How a batch is laid out: one file a planner; registered in planner.cc.
//
// A planner belongs to one thread. It may be replaced between batches: what a plan needs of it is in
// the plan.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "plan/cost_tables.h"
#include "plan/plan.h"

namespace itif::plan {

class Planner {
 public:
  virtual ~Planner() = default;
  // Replaces `plan`. The same items give the same plan. Allocates nothing once `plan` has room for
  // max_requests. REQUIRES: at most max_requests items, each as Item says.
  virtual void plan(std::span<const Item> items, Plan& plan) noexcept = 0;
};

struct PlannerOptions {
  PlanLimits limits = {};
  // Read while the planner is made only. Needed by those that choose by cost; naive predicts its cost
  // if it has them.
  const CostTables* tables = nullptr;
};

// Most requests in a batch of the planners that pad: turbo's and itif's time grows with its square.
inline constexpr uint32_t kMaxPaddedRequests = 4096;

//   packed  no padding: the requests of a tenant end to end (the default)
//   naive   every request padded to the longest of the batch, a GEMM a tenant
//   turbo   mini-batches of similar lengths within each tenant, a GEMM each (TurboTransformers)
//   itif    the same, and mini-batches of different tenants packed into BatchedGEMMs (ITIF)
// Errors: kInvalidArgument: no such planner (with the names there are), no tables where they are
// needed, tables that validate() refuses, limits out of range.
Result<std::unique_ptr<Planner>> make_planner(std::string_view name, const PlannerOptions& options);

// "packed, naive, turbo, itif"
std::string planner_names();
// Whether make_planner() needs tables for it. False for names that are not there.
bool needs_cost_tables(std::string_view name) noexcept;

}  // namespace itif::plan
