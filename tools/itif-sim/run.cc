// itif-sim run: one scenario.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "log_file.h"
#include "plots.h"
#include "sim/scenario_file.h"
#include "time_line.h"

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
  if (!options.output.plot.empty()) ITIF_TRY(make_writable(options.output.plot));
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
    if (results.interval_ns > 0)
      ITIF_TRY(draw(time_line_figure("time-line", "itif-sim run", results), options.output.plot));
  }
  if (results.wrong_answers > 0)
    return fail(Code::kInternal, "answers came from other weights or tokens than their requests'");
  return {};
}

}  // namespace itif::sim
