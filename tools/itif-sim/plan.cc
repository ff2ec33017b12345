// itif-sim plan: tries configurations on a scenario, as Triton's Model Analyzer tries them on a
// device, and prints the one that meets the objective with the least of the device: the smallest
// share, and then the least use of it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "device/compute_types.h"
#include "plots.h"
#include "sched/policy_spec.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

struct Tried {
  std::string planner, scheduler, dtype;
  uint32_t max_requests = 0;
  double share_percent = 100;  // of the device
  double use = 0, share_in_time = 0, p99_ms = 0;
  bool serves = false;
  std::string refused;  // why it cannot run; empty: it ran

  std::string name() const {
    return fmt::format("{} {} {} {} {:g} %", planner, scheduler, dtype, max_requests,
                       share_percent);
  }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json row = {{"planner", planner},
                                  {"scheduler", scheduler},
                                  {"dtype", dtype},
                                  {"max_requests", max_requests},
                                  {"share_percent", share_percent}};
    if (!refused.empty()) {
      row["refused"] = refused;
      return row;
    }
    row["device_use"] = use;
    row["share_in_time"] = share_in_time;
    row["p99_ms"] = p99_ms;
    row["serves"] = serves;
    return row;
  }
};

// The group's share in percent. Alone, a group without one has the whole device.
double share_of(const Scenario& scenario) {
  const double own = scenario.slice.percent;
  return scenario.slices.mode == SliceMode::kFixed && own > 0 ? own : 100;
}

void set_share(double percent, Scenario& scenario) {
  scenario.slices.mode = SliceMode::kFixed;
  scenario.slice.percent = percent;
}

Tried try_out(const Scenario& scenario, const PlanOptions& options) {
  Tried tried = {.planner = scenario.batching.planner,
                 .scheduler = scenario.batching.scheduler,
                 .dtype = scenario.device.dtype,
                 .max_requests = scenario.batching.max_requests,
                 .share_percent = share_of(scenario),
                 .refused = {}};
  const Result<Results> results = simulate(scenario);
  if (!results) {
    tried.refused = results.error().message;
    return tried;
  }
  const TenantResults all = results->total();
  tried.use = results->device_use();
  tried.share_in_time =
      all.sent > 0 ? static_cast<double>(all.in_time) / static_cast<double>(all.sent) : 0;
  const uint64_t p99_ns = all.latency_ns.percentile(99);
  tried.p99_ms = static_cast<double>(p99_ns) / 1e6;
  tried.serves = tried.share_in_time >= options.share_in_time &&
                 (options.p99_ns == 0 || p99_ns <= options.p99_ns);
  return tried;
}

// Returns the configuration that serves the load with the smallest share of the device, and of
// these the one with the least device use. Those within kEqualUse of it count as equal, and the
// one with the lowest latency is chosen. nullptr: none serves it.
const Tried* least_used(const std::vector<Tried>& all) {
  constexpr double kEqualUse = 1.01;
  constexpr double kNone = std::numeric_limits<double>::max();
  double least_share = kNone, least_use = kNone;
  for (const Tried& tried : all)
    if (tried.serves) least_share = std::min(least_share, tried.share_percent);
  const auto serves_on_least = [&](const Tried& tried) {
    return tried.serves && tried.share_percent == least_share;
  };
  for (const Tried& tried : all)
    if (serves_on_least(tried)) least_use = std::min(least_use, tried.use);
  const Tried* best = nullptr;
  for (const Tried& tried : all)
    if (serves_on_least(tried) && tried.use <= kEqualUse * least_use &&
        (best == nullptr || tried.p99_ms < best->p99_ms))
      best = &tried;
  return best;
}

// Errors: kInvalidArgument: the scenario's device cannot be divided, or tunes its shares.
Status check_shares(const Scenario& scenario, const PlanOptions& options) {
  for (const double percent : options.shares) {
    Scenario point = scenario;
    set_share(percent, point);
    if (Status checked = check(point); !checked)
      return fail(checked.error().code, "--shares: " + checked.error().message);
  }
  return {};
}

}  // namespace

Status plan_command(const PlanOptions& options) {
  ITIF_ASSIGN(const Scenario scenario, load_scenario(options.scenario));
  if (scenario.num_groups() > 1)
    return fail(Code::kUnsupported,
                fmt::format("{}: has {} groups, and plan takes one: give each group a file of its "
                            "own, find its smallest share by `itif-sim plan --shares`, and run all "
                            "groups with these shares by `itif-sim run`",
                            scenario.path, scenario.num_groups()));
  const auto or_own = [](const auto& given, const auto& own) {
    auto all = given;
    if (all.empty()) all.push_back(own);
    return all;
  };
  for (const std::string& planner : options.planners)
    ITIF_TRY(check_planner(scenario.model, planner));
  for (const std::string& scheduler : options.schedulers)
    ITIF_TRY(sched::parse_policy_spec(scheduler));
  for (const std::string& dtype : options.dtypes)
    ITIF_TRY(device::read_compute_types(dtype, uniform_types(DType::kF32)));
  for (const uint32_t max : options.max_requests)
    if (max < 1 || max > 65536)
      return fail(Code::kInvalidArgument,
                  fmt::format("--max-requests: {} is not between 1 and 65536", max));
  ITIF_TRY(check_shares(scenario, options));
  std::vector<Tried> all;
  for (const std::string& planner : or_own(options.planners, scenario.batching.planner))
    for (const std::string& scheduler : or_own(options.schedulers, scenario.batching.scheduler))
      for (const std::string& dtype : or_own(options.dtypes, scenario.device.dtype))
        for (const uint32_t max : or_own(options.max_requests, scenario.batching.max_requests))
          for (const double share : or_own(options.shares, share_of(scenario))) {
            Scenario point = scenario;
            point.batching.planner = planner;
            point.batching.scheduler = scheduler;
            point.device.dtype = dtype;
            point.batching.max_requests = max;
            if (!options.shares.empty()) set_share(share, point);
            all.push_back(try_out(point, options));
          }
  const Tried* best = least_used(all);
  if (options.output.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Tried& tried : all) rows.push_back(tried.json());
    nlohmann::ordered_json document = {
        {"tool", "itif-sim"}, {"version", 1}, {"scenario", scenario.path}, {"tried", rows}};
    document["chosen"] = best ? best->json() : nlohmann::ordered_json();
    fmt::print("{}\n", document.dump(2));
  } else {
    fmt::print("{:<10}{:<14}{:<8}{:>12}{:>8}{:>12}{:>10}{:>10}\n", "planner", "scheduler", "dtype",
               "batch bound", "share", "device use", "in time", "p99 ms");
    for (const Tried& tried : all) {
      fmt::print("{:<10}{:<14}{:<8}{:>12}{:>7g}%", tried.planner, tried.scheduler, tried.dtype,
                 tried.max_requests, tried.share_percent);
      if (tried.refused.empty())
        fmt::print("{:>11.1f}%{:>9.2f}%{:>10.2f}{}\n", 100 * tried.use, 100 * tried.share_in_time,
                   tried.p99_ms,
                   &tried == best ? "  chosen"
                   : tried.serves ? ""
                                  : "  misses the objective");
      else
        fmt::print("  {}\n", tried.refused);
    }
  }
  if (!options.output.plot.empty()) {
    bench::Panel panel = {.title = "device use of the configurations that serve the load",
                          .y_label = "% of time",
                          .kind = bench::Panel::Kind::kBars,
                          .series = {"device use"},
                          .lines = {}};
    for (const Tried& tried : all)
      if (tried.serves) panel.lines.push_back({.x = tried.name(), .y = {100 * tried.use}});
    ITIF_TRY(draw({.name = "plan", .title = scenario.path, .bench = {}, .panels = {panel}},
                  options.output.plot));
  }
  if (best == nullptr)
    return fail(Code::kNotFound, "no configuration that was tried serves this load");
  return {};
}

}  // namespace itif::sim
