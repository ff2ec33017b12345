// itif-sim run: one scenario.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "log_file.h"
#include "plots.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

// Latency by percentile, one curve per tenant.
bench::Figure latency_figure(const Scenario& scenario, const Results& results) {
  bench::Panel panel = {.title = "latency by percentile",
                        .x_label = "1 / (1 - share of the answers)",
                        .y_label = "ms"};
  std::vector<Histogram> histograms;
  const std::vector<std::string> names = scenario.tenant_names();
  for (size_t i = 0; i < results.tenants.size(); ++i) {
    panel.series.push_back(names[i]);
    histograms.push_back(results.tenants[i].latency_ns);
  }
  for (const double part : {1.0, 2.0, 4.0, 10.0, 20.0, 100.0, 1000.0, 10000.0}) {
    bench::Panel::Line line = {.x = fmt::format("{:g}", part), .y = {}};
    for (const Histogram& h : histograms)
      line.y.push_back(static_cast<double>(h.percentile(100 * (1 - 1 / part))) / 1e6);
    panel.lines.push_back(std::move(line));
  }
  return {.name = "latency", .title = "itif-sim run", .bench = {}, .panels = {std::move(panel)}};
}

// Shares, throughput and latency of the groups over time: GSLICE's Figures 15 and 16.
bench::Figure time_line_figure(const Results& results) {
  struct Shown {
    const char* title;
    const char* label;
    double (*value)(const GroupInterval&);
  };
  constexpr Shown kShown[] = {
      {"part of the device", "%", [](const GroupInterval& i) { return i.share_percent; }},
      {"arrivals", "requests/s", [](const GroupInterval& i) { return double(i.sent); }},
      {"throughput", "answers/s", [](const GroupInterval& i) { return double(i.answered); }},
      {"mean latency", "ms", [](const GroupInterval& i) { return i.mean_latency_ms(); }}};
  bench::Figure figure = {.name = "time-line", .title = "itif-sim run", .bench = {}, .panels = {}};
  size_t num_seconds = 0;
  for (const GroupResults& group : results.groups)
    num_seconds = std::max(num_seconds, group.intervals.size());
  for (const Shown& shown : kShown) {
    bench::Panel panel = {.title = shown.title, .x_label = "s", .y_label = shown.label};
    panel.x_scale = bench::Panel::Scale::kLinear;
    for (const GroupResults& group : results.groups) panel.series.push_back(group.name);
    for (size_t i = 0; i < num_seconds; ++i) {
      bench::Panel::Line line = {.x = fmt::format("{}", i), .y = {}};
      for (const GroupResults& group : results.groups)
        line.y.push_back(i < group.intervals.size() ? std::optional(shown.value(group.intervals[i]))
                                                    : std::nullopt);
      panel.lines.push_back(std::move(line));
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

}  // namespace

Status check_one_group(const Scenario& scenario) {
  if (scenario.num_groups() == 1) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: has {} groups, and this command takes one: use `itif-sim run`",
                          scenario.path, scenario.num_groups()));
}

Result<Nic*> process_nic() {
  // Lives until the process ends: EAL starts once.
  static const Result<std::unique_ptr<Nic>> nic = Nic::open();
  if (!nic) return std::unexpected(nic.error());
  return nic->get();
}

Result<Results> simulate(const Scenario& scenario, const SimulationOptions& options) {
  ITIF_ASSIGN(Nic * nic, process_nic());
  ITIF_ASSIGN(const auto simulation, Simulation::create(scenario, *nic, options));
  ITIF_TRY(simulation->run());
  return simulation->results();
}

Status run_command(const RunOptions& options) {
  ITIF_ASSIGN(const Scenario scenario, load_scenario(options.scenario));
  ITIF_ASSIGN(LogFile log, LogFile::open(options.log));
  ITIF_ASSIGN(const Results results,
              simulate(scenario, {.logs_events = !options.log.empty(), .log_file = log.get()}));
  ITIF_TRY(log.close());
  if (options.output.json)
    fmt::print("{}\n", results_json(scenario, results).dump(2));
  else
    fmt::print("{}", results_table(scenario, results));
  if (!options.output.plot.empty()) {
    ITIF_TRY(draw(latency_figure(scenario, results), options.output.plot));
    if (results.has_time_line) ITIF_TRY(draw(time_line_figure(results), options.output.plot));
  }
  if (results.wrong_answers > 0)
    return fail(Code::kInternal, "answers came from other weights or tokens than their requests'");
  return {};
}

}  // namespace itif::sim
