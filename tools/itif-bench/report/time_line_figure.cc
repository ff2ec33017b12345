#include "report/time_line_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace itif::bench {
namespace {

struct Quantity {
  const char *title, *unit;
  double TimeLine::Interval::*value;
};
constexpr Quantity kQuantities[] = {
    {"part of the device", "%", &TimeLine::Interval::share_percent},
    {"arrivals", "requests/s", &TimeLine::Interval::sent_per_s},
    {"batches", "requests", &TimeLine::Interval::batch_requests},
    {"throughput", "answers/s", &TimeLine::Interval::answered_per_s},
    {"mean latency", "ms", &TimeLine::Interval::mean_ms}};

bool is_measured(const TimeLine& line, const Quantity& quantity) {
  return std::ranges::any_of(line.series, [&](const TimeLine::Series& series) {
    return std::ranges::any_of(series.intervals, [&](const TimeLine::Interval& interval) {
      return interval.*quantity.value != 0;
    });
  });
}

Panel panel_of(const TimeLine& line, const Quantity& quantity) {
  Panel panel = {.title = quantity.title, .x_label = "s", .y_label = quantity.unit};
  panel.x_scale = Panel::Scale::kLinear;
  size_t num_intervals = 0;
  for (const TimeLine::Series& series : line.series) {
    panel.series.push_back(series.name);
    num_intervals = std::max(num_intervals, series.intervals.size());
  }
  for (size_t i = 0; i < num_intervals; ++i) {
    Panel::Line at = {.x = fmt::format("{:g}", static_cast<double>(i) * line.interval_s), .y = {}};
    for (const TimeLine::Series& series : line.series)
      at.y.push_back(i < series.intervals.size()
                         ? std::optional(series.intervals[i].*quantity.value)
                         : std::nullopt);
    panel.lines.push_back(std::move(at));
  }
  return panel;
}

}  // namespace

Figure time_line_figure(const TimeLine& line, const std::string& bench) {
  Figure figure = {.name = line.name, .title = line.title, .bench = bench};
  for (const Quantity& quantity : kQuantities)
    if (is_measured(line, quantity)) figure.panels.push_back(panel_of(line, quantity));
  return figure;
}

}  // namespace itif::bench
