// itif-sim sweep: a scenario at each value of one or two parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "commands.h"
#include "metrics.h"
#include "plots.h"
#include "sim/parameters.h"
#include "sim/scenario_file.h"
#include "specs.h"

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
  SweepAxis axis = {.key = text.substr(0, equals), .values = split_specs(text.substr(equals + 1))};
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

// Returns the position of a value on a logarithmic axis, durations in milliseconds; nullopt: it has
// none.
std::optional<double> position_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (*end == '\0' && number > 0) return number;
  const auto duration_ns = parse_duration_ns(text.c_str());
  if (duration_ns && *duration_ns > 0) return static_cast<double>(*duration_ns) / 1e6;
  return std::nullopt;
}

using Figures = std::vector<double>;  // of a point, by metric

// Reports parameters that changed no figure: the scenario probably does not use them. `points`: by
// value of x, then by curve.
void report_without_effect(const SweepAxis& x, const SweepAxis& curves,
                           const std::vector<std::vector<Figures>>& points) {
  const auto report = [](const std::string& key) {
    fmt::print(stderr, "itif-sim: {} changed no figure: does the scenario use it?\n", key);
  };
  if (x.values.size() > 1 &&
      std::ranges::all_of(points, [&](const auto& of_value) { return of_value == points.front(); }))
    report(x.key);
  if (curves.values.size() > 1 && std::ranges::all_of(points, [](const auto& of_value) {
        return std::ranges::all_of(of_value,
                                   [&](const Figures& f) { return f == of_value.front(); });
      }))
    report(curves.key);
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
    if (curves.key == x.key)
      return fail(Code::kInvalidArgument, fmt::format("--vary: {} is given twice", x.key));
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
  if (!options.output.plot.empty()) ITIF_TRY(make_writable(options.output.plot));
  bench::Figure figure = {.name = "sweep", .title = scenario.path, .bench = {}, .panels = {}};
  const bool is_line = std::ranges::all_of(
      x.values, [](const auto& value) { return position_of(value).has_value(); });
  const bool has_durations = is_line && x.values.front().ends_with('s');
  for (const Metric* metric : metrics)
    figure.panels.push_back(
        {.title = std::string(metric->label),
         .x_label = has_durations ? x.key + ", ms" : x.key,
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
  std::vector<std::vector<Figures>> points;
  for (const std::string& value : x.values) {
    points.emplace_back();
    const std::string position = has_durations ? fmt::format("{:g}", *position_of(value)) : value;
    for (bench::Panel& panel : figure.panels) panel.lines.push_back({.x = position, .y = {}});
    for (const std::string& curve : curves.values) {
      ITIF_ASSIGN(const Scenario point, point_of(scenario, x, value, curves, curve));
      ITIF_ASSIGN(const Results results, simulate(point));
      nlohmann::ordered_json row = {{x.key, value}};
      if (!curves.key.empty()) row[curves.key] = curve;
      if (!options.output.json) fmt::print("{:<20}{:<16}", value, curves.key.empty() ? "" : curve);
      Figures& figures = points.back().emplace_back();
      for (size_t m = 0; m < metrics.size(); ++m) {
        const double figure_of = metrics[m]->of(results);
        figures.push_back(figure_of);
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
  report_without_effect(x, curves, points);
  if (!options.output.plot.empty()) ITIF_TRY(draw(figure, options.output.plot));
  return {};
}

}  // namespace itif::sim
