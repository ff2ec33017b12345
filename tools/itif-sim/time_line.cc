#include "time_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace itif::sim {

bench::Figure time_line_figure(const std::string& name, const std::string& title,
                               const Results& results) {
  const double interval_s = static_cast<double>(results.interval_ns) / 1e9;
  const auto panel = [&](const char* what, const char* label, auto value) {
    bench::Panel panel = {.title = what, .x_label = "s", .y_label = label};
    panel.x_scale = bench::Panel::Scale::kLinear;
    size_t num_intervals = 0;
    for (const GroupResults& group : results.groups) {
      panel.series.push_back(group.name);
      num_intervals = std::max(num_intervals, group.intervals.size());
    }
    for (size_t i = 0; i < num_intervals; ++i) {
      bench::Panel::Line line = {.x = fmt::format("{:g}", static_cast<double>(i) * interval_s),
                                 .y = {}};
      for (const GroupResults& group : results.groups)
        line.y.push_back(i < group.intervals.size() ? std::optional(value(group.intervals[i]))
                                                    : std::nullopt);
      panel.lines.push_back(std::move(line));
    }
    return panel;
  };
  const auto rate = [interval_s](uint64_t count) {
    return static_cast<double>(count) / interval_s;
  };
  return {
      .name = name,
      .title = title,
      .bench = {},
      .panels = {
          panel("part of the device", "%", [](const GroupInterval& i) { return i.share_percent; }),
          panel("arrivals", "requests/s", [rate](const GroupInterval& i) { return rate(i.sent); }),
          panel("throughput", "answers/s",
                [rate](const GroupInterval& i) { return rate(i.answered); }),
          panel("mean latency", "ms", [](const GroupInterval& i) { return i.mean_latency_ms(); })}};
}

}  // namespace itif::sim
