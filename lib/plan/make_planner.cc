#include "plan/make_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "plan/planner_kind.h"
#include "plan/planner_names.h"
#include "plan/tenant_passes.h"

namespace itif::plan {

// planners.inc has ITIF_PLANNER(name) per name in meson.build; lib/plan/<name>.cc defines it.
#define ITIF_PLANNER(name) PlannerKind name##_planner();
#include "plan/planners.inc"
#undef ITIF_PLANNER

namespace {

struct Entry {
  std::string_view name;
  PlannerKind kind;
};

std::span<const Entry> planners() noexcept {
  static const Entry all[] = {
#define ITIF_PLANNER(name) {#name, name##_planner()},
#include "plan/planners.inc"
#undef ITIF_PLANNER
  };
  return all;
}

constexpr uint32_t kMaxRows = (1u << 24) - 1;  // limit of the sort keys in request_order.h

}  // namespace

Result<std::unique_ptr<Planner>> make_planner(std::string_view name,
                                              const PlannerOptions& options) {
  for (const auto& [known, kind] : planners()) {
    if (known != name) continue;
    const PlanLimits& limits = options.limits;
    if (limits.max_requests < 1 || limits.max_requests > kind.max_requests)
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' takes batches of 1 to {} requests, not {}", name,
                              kind.max_requests, limits.max_requests));
    if (limits.max_rows < 1 || limits.max_rows > kMaxRows)
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' takes passes of 1 to {} rows, not {}", name, kMaxRows,
                              limits.max_rows));
    if (kind.needs_tables && !options.tables)
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' chooses by measured costs: profile the group first, or "
                              "use 'packed'",
                              name));
    if (options.tables) ITIF_TRY(validate(*options.tables));
    if (kind.needs_tables && !options.tables->serve_planners())
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' needs measured costs of passes, and a decoder's tables "
                              "have none",
                              name));
    if (kind.needs_pricer && !options.pricer)
      return fail(Code::kInvalidArgument, fmt::format("planner '{}' needs a pricer", name));
    auto planner = kind.make(options);
    // The planners that a pricer compares have the same limits.
    if (limits.max_pass_tenants > 0 && !kind.needs_pricer)
      planner = std::make_unique<TenantPasses>(std::move(planner), limits);
    planner->name_ = known;
    return planner;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("unknown planner '{}': use one of {}", name, planner_names()));
}

std::string planner_names() {
  return fmt::format("{}", fmt::join(kPlannerNames, ", "));
}

bool needs_cost_tables(std::string_view name) noexcept {
  for (const auto& [known, kind] : planners())
    if (known == name) return kind.needs_tables;
  return false;
}

}  // namespace itif::plan
