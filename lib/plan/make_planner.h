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
//   concat  requests of all tenants concatenated in rows of equal length (TCB, section 4.1)
//   slotted the same in slots of a row, each with an attention of its own (TCB, section 4.2)
// Settings follow the name: "slotted:slot_tokens=32,row_tokens=128".
// Errors: kInvalidArgument: those of parse_planner(), missing tables or a missing pricer that the
// planner needs, tables that validate() refuses, limits or settings out of range.
Result<std::unique_ptr<Planner>> make_planner(std::string_view text, const PlannerOptions& options);

// A planner and its settings, parsed from what users write: "slotted:slot_tokens=32".
struct PlannerText {
  std::string_view name;  // in planner_names.h; valid for ever
  RowSettings rows;
};
// Errors: kInvalidArgument: an unknown planner (lists the names); a setting that the planner lacks,
// that is set twice, or whose value is not a number above 0 (names the setting).
Result<PlannerText> parse_planner(std::string_view text);

// "packed, naive, turbo, …"
std::string planner_names();
// Returns true if make_planner() needs tables for this planner; false for unknown names. Settings
// after the name are ignored.
bool needs_cost_tables(std::string_view text) noexcept;
// Returns true if segments of its plans share score matrices (Segment::score_matrix).
bool shares_scores(std::string_view text) noexcept;

}  // namespace itif::plan
