// itif-sim sweep: a scenario at each value of one or two parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plots.h"

namespace itif::sim {
namespace {

struct Metric {
  std::string_view name, label;
  double (*of)(const Results&);
};
double p_ms(const Results& r, double percent) {
  return static_cast<double>(r.total().latency_ns.percentile(percent)) / 1e6;
}
constexpr Metric kMetrics[] = {
    {"throughput", "answers per second",
     [](const Results& r) { return r.per_second(static_cast<double>(r.total().answered)); }},
    {"goodput", "answers in time per second",
     [](const Results& r) { return r.per_second(static_cast<double>(r.total().in_time)); }},
    {"utility", "utility per second",
     [](const Results& r) { return r.per_second(r.total().utility); }},
    {"in_time", "% of requests answered in time",
     [](const Results& r) {
       const TenantResults all = r.total();
       return all.sent ? 100.0 * static_cast<double>(all.in_time) / static_cast<double>(all.sent)
                       : 0.0;
     }},
    {"p50", "median latency, ms", [](const Results& r) { return p_ms(r, 50); }},
    {"p99", "99th percentile of latency, ms", [](const Results& r) { return p_ms(r, 99); }},
    {"use", "% of time in which the device is busy",
     [](const Results& r) { return 100 * r.device_use(); }},
    {"padding", "% of rows that are padding", [](const Results& r) { return 100 * r.padding(); }},
    {"batch", "requests per batch", [](const Results& r) { return r.batch_size(); }},
};

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

Result<Axis> parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    return fail(Code::kInvalidArgument,
                fmt::format("'{}': expected KEY=VALUE,VALUE,…, as in arrivals.rate=100,200", text));
  Axis axis = {.key = text.substr(0, equals), .values = {}};
  for (size_t from = equals + 1; from <= text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    axis.values.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return axis;
}

bool is_positive(const std::string& text) {
  char* end = nullptr;
  return std::strtod(text.c_str(), &end) > 0 && *end == '\0';
}

}  // namespace

std::string metric_names() {
  std::string names;
  for (const Metric& metric : kMetrics)
    names += (names.empty() ? "" : ", ") + std::string(metric.name);
  return names;
}

Status sweep_command(const SweepOptions& options) {
  ITIF_ASSIGN(const Scenario scenario, load_scenario(options.scenario));
  ITIF_ASSIGN(const Axis x, parse_axis(options.vary.front()));
  Axis curves = {.key = {}, .values = {"all"}};
  if (options.vary.size() > 1) {
    ITIF_ASSIGN(curves, parse_axis(options.vary[1]));
  }
  std::vector<const Metric*> metrics;
  for (const std::string& name : options.metrics) {
    const auto found = std::ranges::find(kMetrics, name, &Metric::name);
    if (found == std::end(kMetrics))
      return fail(Code::kInvalidArgument,
                  fmt::format("no metric '{}'; choose from {}", name, metric_names()));
    metrics.push_back(found);
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
      Scenario point = scenario;
      ITIF_TRY(set_parameter(point, x.key, value));
      if (!curves.key.empty()) ITIF_TRY(set_parameter(point, curves.key, curve));
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
