// itif-sim sweep: a scenario at each value of one or two parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "metrics.h"
#include "plots.h"
#include "sim/parameters.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

Result<SweepAxis> parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    return fail(Code::kInvalidArgument,
                fmt::format("'{}': expected KEY=VALUE,VALUE,…, as in arrivals.rate=100,200", text));
  SweepAxis axis = {.key = text.substr(0, equals), .values = {}};
  for (size_t from = equals + 1; from <= text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    axis.values.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return axis;
}

// Sets the parameters of a point. `curves`: without a key there is only one curve.
Result<Scenario> point_of(const Scenario& scenario, const SweepAxis& x, const std::string& value,
                          const SweepAxis& curves, const std::string& curve) {
  Scenario point = scenario;
  ITIF_TRY(set_parameter(point, x.key, value));
  if (!curves.key.empty()) ITIF_TRY(set_parameter(point, curves.key, curve));
  return point;
}

bool is_positive(const std::string& text) {
  char* end = nullptr;
  return std::strtod(text.c_str(), &end) > 0 && *end == '\0';
}

}  // namespace

Status sweep_command(const SweepOptions& options) {
  ITIF_ASSIGN(const Scenario scenario, load_scenario(options.scenario));
  if (options.vary.size() > 2)
    return fail(Code::kInvalidArgument, "--vary: at most two parameters: x axis and curves");
  ITIF_ASSIGN(const SweepAxis x, parse_axis(options.vary.front()));
  SweepAxis curves = {.key = {}, .values = {"all"}};
  if (options.vary.size() > 1) {
    ITIF_ASSIGN(curves, parse_axis(options.vary[1]));
  }
  // Refuses a wrong value before the first point runs.
  for (const std::string& value : x.values)
    for (const std::string& curve : curves.values)
      ITIF_TRY(point_of(scenario, x, value, curves, curve));
  std::vector<const Metric*> metrics;
  for (const std::string& name : options.metrics) {
    ITIF_ASSIGN(const Metric* metric, find_metric(name));
    metrics.push_back(metric);
  }
  bench::Figure figure = {.name = "sweep", .title = scenario.path, .bench = {}, .panels = {}};
  const bool is_line = std::ranges::all_of(x.values, is_positive);
  for (const Metric* metric : metrics)
    figure.panels.push_back(
        {.title = std::string(metric->label),
         .x_label = x.key,
         .y_label = std::string(metric->label),
         .kind = is_line ? bench::Panel::Kind::kLines : bench::Panel::Kind::kBars,
         .series = curves.values,
         .lines = {}});
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!options.output.json) {
    fmt::print("{:<20}{:<16}", x.key, curves.key);
    for (const Metric* metric : metrics) fmt::print("{:>14}", metric->name);
    fmt::print("\n");
  }
  for (const std::string& value : x.values) {
    for (bench::Panel& panel : figure.panels) panel.lines.push_back({.x = value, .y = {}});
    for (const std::string& curve : curves.values) {
      ITIF_ASSIGN(const Scenario point, point_of(scenario, x, value, curves, curve));
      ITIF_ASSIGN(const Results results, simulate(point));
      nlohmann::ordered_json row = {{x.key, value}};
      if (!curves.key.empty()) row[curves.key] = curve;
      if (!options.output.json) fmt::print("{:<20}{:<16}", value, curves.key.empty() ? "" : curve);
      for (size_t m = 0; m < metrics.size(); ++m) {
        const double figure_of = metrics[m]->of(results);
        figure.panels[m].lines.back().y.push_back(figure_of);
        row[std::string(metrics[m]->name)] = figure_of;
        if (!options.output.json) fmt::print("{:>14.3f}", figure_of);
      }
      if (!options.output.json) fmt::print("\n");
      rows.push_back(std::move(row));
    }
  }
  if (options.output.json)
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{
            {"tool", "itif-sim"}, {"version", 1}, {"scenario", scenario.path}, {"points", rows}}
            .dump(2));
  if (!options.output.plot.empty()) ITIF_TRY(draw(figure, options.output.plot));
  return {};
}

}  // namespace itif::sim
