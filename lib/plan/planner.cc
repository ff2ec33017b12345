#include "plan/planner.h"

#include <fmt/format.h>

#include "plan/planners.h"

namespace itif::plan {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Planner> (*make)(const PlannerOptions& options);
  bool needs_tables;
  uint32_t most_requests;
};

constexpr Entry kPlanners[] = {
    {"packed", make_packed, false, 1u << 16},
    {"naive", make_naive, false, kMaxPaddedRequests},
    {"turbo", make_turbo, true, kMaxPaddedRequests},
    {"itif", make_itif, true, kMaxPaddedRequests},
};
constexpr uint32_t kMaxRows = (1u << 24) - 1;  // limit of the sort keys in request_order.h

}  // namespace

Result<std::unique_ptr<Planner>> make_planner(std::string_view name,
                                              const PlannerOptions& options) {
  for (const Entry& entry : kPlanners) {
    if (entry.name != name) continue;
    const PlanLimits& limits = options.limits;
    if (limits.max_requests < 1 || limits.max_requests > entry.most_requests)
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' takes batches of 1 to {} requests, not {}", name,
                              entry.most_requests, limits.max_requests));
    if (limits.max_rows < 1 || limits.max_rows > kMaxRows)
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' takes passes of 1 to {} rows, not {}", name, kMaxRows,
                              limits.max_rows));
    if (entry.needs_tables && !options.tables)
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' chooses by measured costs: profile the group first, or "
                              "use 'packed'",
                              name));
    if (options.tables) ITIF_TRY(validate(*options.tables));
    if (entry.needs_tables && !options.tables->serve_planners())
      return fail(Code::kInvalidArgument,
                  fmt::format("planner '{}' needs measured costs of passes, and a decoder's tables "
                              "have none",
                              name));
    return entry.make(options);
  }
  return fail(Code::kInvalidArgument,
              fmt::format("unknown planner '{}': use one of {}", name, planner_names()));
}

std::string planner_names() {
  std::string names;
  for (const Entry& entry : kPlanners) {
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  return names;
}

bool needs_cost_tables(std::string_view name) noexcept {
  for (const Entry& entry : kPlanners)
    if (entry.name == name) return entry.needs_tables;
  return false;
}

}  // namespace itif::plan
