#include "plan/make_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
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

const Entry* find_planner(std::string_view text) noexcept {
  const std::string_view name = text.substr(0, text.find(':'));
  for (const Entry& entry : planners())
    if (entry.name == name) return &entry;
  return nullptr;
}

Status parse_setting(const Entry& planner, std::string_view text, RowSettings& rows) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  uint32_t* const field = key == "row_tokens" && planner.kind.has_row_tokens     ? &rows.row_tokens
                          : key == "slot_tokens" && planner.kind.has_slot_tokens ? &rows.slot_tokens
                                                                                 : nullptr;
  if (field == nullptr)
    return fail(Code::kInvalidArgument,
                fmt::format("planner '{}' has no setting '{}'", planner.name, key));
  if (*field != 0)
    return fail(Code::kInvalidArgument,
                fmt::format("planner '{}': '{}' is set twice", planner.name, key));
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *field);
  if (error != std::errc() || end != value.data() + value.size() || *field == 0)
    return fail(Code::kInvalidArgument,
                fmt::format("planner '{}': '{}' is '{}', and must be a number of tokens above 0",
                            planner.name, key, value));
  return {};
}

Status check_rows(std::string_view name, const RowSettings& rows, const PlanLimits& limits) {
  const auto check = [&](const char* key, uint32_t value, const char* limit_name,
                         uint32_t most) -> Status {
    if (value <= most) return {};
    return fail(Code::kInvalidArgument, fmt::format("planner '{}': '{}' is {}, more than {}, {}",
                                                    name, key, value, limit_name, most));
  };
  ITIF_TRY(check("row_tokens", rows.row_tokens, "a batch can have tokens", limits.max_rows));
  if (rows.row_tokens > 0)
    return check("slot_tokens", rows.slot_tokens, "a row has, row_tokens", rows.row_tokens);
  return check("slot_tokens", rows.slot_tokens, "a batch can have tokens", limits.max_rows);
}

}  // namespace

Result<PlannerText> parse_planner(std::string_view text) {
  const Entry* const entry = find_planner(text);
  if (entry == nullptr)
    return fail(Code::kInvalidArgument,
                fmt::format("unknown planner '{}': use one of {}", text.substr(0, text.find(':')),
                            planner_names()));
  PlannerText parsed{.name = entry->name, .rows = {}};
  for (size_t mark = text.find(':'); mark != text.npos;) {
    const size_t next = text.find(',', mark + 1);
    ITIF_TRY(parse_setting(*entry, text.substr(mark + 1, next - mark - 1), parsed.rows));
    mark = next;
  }
  return parsed;
}

Result<std::unique_ptr<Planner>> make_planner(std::string_view text,
                                              const PlannerOptions& base_options) {
  ITIF_ASSIGN(const PlannerText parsed, parse_planner(text));
  const std::string_view name = parsed.name;
  const PlannerKind& kind = find_planner(text)->kind;
  PlannerOptions options = base_options;
  options.rows = parsed.rows;
  const PlanLimits& limits = options.limits;
  if (limits.max_requests < 1 || limits.max_requests > kind.max_requests)
    return fail(Code::kInvalidArgument,
                fmt::format("planner '{}' takes batches of 1 to {} requests, not {}", name,
                            kind.max_requests, limits.max_requests));
  if (limits.max_rows < 1 || limits.max_rows > kMaxRows)
    return fail(Code::kInvalidArgument,
                fmt::format("planner '{}' takes passes of 1 to {} rows, not {}", name, kMaxRows,
                            limits.max_rows));
  ITIF_TRY(check_rows(name, options.rows, limits));
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
  // Each planner that auto compares is limited already. max_shared_tokens alone does not limit
  // planners whose rows share scores: such rows may hold several tenants.
  const bool has_limits =
      limits.max_pass_tenants > 0 || (limits.max_shared_tokens > 0 && !kind.shares_scores);
  if (has_limits && !kind.needs_pricer)
    planner = std::make_unique<TenantPasses>(std::move(planner), limits);
  planner->name_ = name;
  return planner;
}

std::string planner_names() {
  return fmt::format("{}", fmt::join(kPlannerNames, ", "));
}

bool needs_cost_tables(std::string_view text) noexcept {
  const Entry* const entry = find_planner(text);
  return entry != nullptr && entry->kind.needs_tables;
}

bool shares_scores(std::string_view text) noexcept {
  const Entry* const entry = find_planner(text);
  return entry != nullptr && entry->kind.shares_scores;
}

}  // namespace itif::plan
