// Makes planners by name, from meson.build's list.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "plan/planner.h"

namespace itif::plan {

//   packed  no padding: each tenant's requests end to end (the default)
//   naive   every request padded to the longest of the batch, one GEMM per tenant
//   turbo   mini-batches of similar lengths within each tenant, one GEMM each (TurboTransformers)
//   itif    the same, and mini-batches of different tenants packed into BatchedGEMMs (ITIF)
//   joint   the cheapest plan of such calls (beyond ITIF, which decides in two stages)
//   auto    for each batch, the cheapest plan of packed, turbo, itif and joint
// Errors: kInvalidArgument: an unknown planner (lists the names), missing tables or a missing
// pricer that the planner needs, tables that validate() refuses, limits out of range.
Result<std::unique_ptr<Planner>> make_planner(std::string_view name, const PlannerOptions& options);

// "packed, naive, turbo, …"
std::string planner_names();
// Returns true if make_planner() needs tables for this planner; false for unknown names.
bool needs_cost_tables(std::string_view name) noexcept;

}  // namespace itif::plan
