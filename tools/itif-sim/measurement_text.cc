#include "measurement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commit.h"
#include "differences.h"
#include "metrics.h"

namespace itif::sim {
namespace {

using nlohmann::ordered_json;

std::string label_of(const Shown& shown) {
  if (shown.metric == "decision_us") return "us per decision";
  if (shown.metric == "decision_share") return "decision, % of the batch's time";
  const std::string label((*find_metric(shown.metric))->label);
  return shown.is_speed_up ? "speed-up in " + label : label;
}

std::string panel_title(const Experiment& experiment, const Shown& shown) {
  const bool is_of_paper = std::ranges::all_of(shown.figure.substr(0, 1), ::isdigit);
  return is_of_paper && experiment.figures.size() > 1
             ? fmt::format("Figure {}: {}", shown.figure, label_of(shown))
             : label_of(shown);
}

std::string range_of(const Ratio& ratio) {
  if (!ratio.least) return "–";
  return fmt::format("{:.2f} to {:.2f}", *ratio.least, *ratio.most);
}

std::string name_of(const Stated& stated) {
  return fmt::format("{} over {}: {}", stated.curve, stated.over,
                     std::string((*find_metric(stated.metric))->label));
}

ordered_json json_of(const Measurement& measurement) {
  ordered_json points = ordered_json::array(), ratios = ordered_json::array();
  for (const Point& point : measurement.points) {
    ordered_json one = {{"x", point.x},
                        {"curve", point.curve},
                        {"planner", point.planner},
                        {"scheduler", point.scheduler}};
    for (const auto& [name, value] : point.values) one[name] = value;
    points.push_back(std::move(one));
  }
  for (const Ratio& ratio : measurement.ratios) {
    ordered_json one = {{"metric", ratio.stated.metric},
                        {"curve", ratio.stated.curve},
                        {"over", ratio.stated.over},
                        {"of_maxima", ratio.of_maxima}};
    if (ratio.least) one["past_saturation"] = {*ratio.least, *ratio.most};
    if (!ratio.stated.paper.empty()) one["paper"] = ratio.stated.paper;
    ratios.push_back(std::move(one));
  }
  return {{"figures", measurement.experiment.figures},
          {"title", measurement.experiment.title},
          {"x", axis_label(measurement.experiment.axis)},
          {"points", std::move(points)},
          {"ratios", std::move(ratios)}};
}

std::string markdown_of(const Measurement& measurement) {
  const Experiment& experiment = measurement.experiment;
  std::string text =
      fmt::format("\n## {0}\n\n![{0}]({1}.svg)\n", experiment.title, experiment.name);
  if (!measurement.ratios.empty()) {
    text += "\n| ratio | of the maxima | past saturation | paper |\n|---|---:|---:|---:|\n";
    for (const Ratio& ratio : measurement.ratios)
      text += fmt::format("| {} | {:.2f} | {} | {} |\n", name_of(ratio.stated), ratio.of_maxima,
                          range_of(ratio), ratio.stated.paper);
  }
  for (const Shown& shown : experiment.shown) {
    text +=
        fmt::format("\n{}:\n\n| {} |", panel_title(experiment, shown), axis_label(experiment.axis));
    for (const Curve& curve : experiment.curves) text += fmt::format(" {} |", curve.name);
    text += "\n|---:|";
    for (size_t i = 0; i < experiment.curves.size(); ++i) text += "---:|";
    for (const double x : measurement.xs) {
      text += fmt::format("\n| {:g} |", x);
      for (const Curve& curve : experiment.curves)
        text +=
            fmt::format(" {:.4g} |", measurement.shown(shown, *measurement.find(x, curve.name)));
    }
    text += "\n";
  }
  if (const std::string why = difference_of(experiment.name); !why.empty())
    text += "\n" + why + "\n";
  return text;
}

}  // namespace

ordered_json to_json(const Scenario& scenario, std::span<const Measurement> all) {
  ordered_json figures = ordered_json::array();
  for (const Measurement& measurement : all) figures.push_back(json_of(measurement));
  return {{"tool", "itif-sim"},
          {"version", 1},
          {"commit", bench::kCommit},
          {"scenario", scenario.path},
          {"seed", scenario.seed},
          {"machine", scenario.device.machine},
          {"dtype", scenario.device.dtype},
          {"experiments", std::move(figures)}};
}

std::string to_tables(const Measurement& measurement) {
  const Experiment& experiment = measurement.experiment;
  std::string text = experiment.title + "\n";
  for (const Shown& shown : experiment.shown) {
    text += fmt::format("\n  {}\n  {:<24}", panel_title(experiment, shown),
                        axis_label(experiment.axis));
    for (const Curve& curve : experiment.curves) text += fmt::format("{:>13}", curve.name);
    for (const double x : measurement.xs) {
      text += fmt::format("\n  {:<24g}", x);
      for (const Curve& curve : experiment.curves)
        text +=
            fmt::format("{:>13.3f}", measurement.shown(shown, *measurement.find(x, curve.name)));
    }
    text += "\n";
  }
  if (!measurement.ratios.empty())
    text += fmt::format("\n  {:<56}{:>10}{:>18}{:>16}\n", "ratio", "of maxima", "past saturation",
                        "paper");
  for (const Ratio& ratio : measurement.ratios)
    text += fmt::format("  {:<56}{:>10.2f}{:>18}{:>16}\n", name_of(ratio.stated), ratio.of_maxima,
                        range_of(ratio), ratio.stated.paper);
  return text + "\n";
}

std::string to_markdown(const std::string& command, const Scenario& scenario,
                        std::span<const Measurement> all) {
  std::string text = fmt::format(
      "# TCB's figures, simulated\n\n| | |\n|---|---|\n| command | `{}` |\n| commit | {} |\n"
      "| device | simulated {}, {} |\n| seed | {} |\n\n"
      "[simulation.md](../../docs/simulation.md#the-papers-figures) says what the paper leaves "
      "open and what is chosen. A ratio \"of the maxima\" divides the curves' largest values. "
      "\"Past saturation\" is its range over the points where the second curve answers less than "
      "{:g} % of its requests in time.\n",
      command, bench::kCommit, scenario.device.machine, scenario.device.dtype, scenario.seed,
      kSaturated);
  for (const Measurement& measurement : all) text += markdown_of(measurement);
  return text;
}

bench::Figure to_figure(const Measurement& measurement) {
  const Experiment& experiment = measurement.experiment;
  bench::Figure figure = {
      .name = experiment.name, .title = experiment.title, .bench = {}, .panels = {}};
  for (const Shown& shown : experiment.shown) {
    bench::Panel panel = {.title = panel_title(experiment, shown),
                          .x_label = axis_label(experiment.axis),
                          .y_label = label_of(shown),
                          .x_scale = bench::Panel::Scale::kLinear,
                          .series = {},
                          .lines = {}};
    for (const Curve& curve : experiment.curves) panel.series.push_back(curve.name);
    for (const double x : measurement.xs) {
      bench::Panel::Line line = {.x = fmt::format("{:g}", x), .y = {}};
      for (const Curve& curve : experiment.curves)
        line.y.push_back(measurement.shown(shown, *measurement.find(x, curve.name)));
      panel.lines.push_back(std::move(line));
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

}  // namespace itif::sim
