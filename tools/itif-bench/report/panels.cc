#include "report/panels.h"

#include <algorithm>

namespace itif::bench {

void put(Panel& panel, const Point& point, double y) {
  const auto series = std::ranges::find(panel.series, point.series);
  const auto column = static_cast<size_t>(series - panel.series.begin());
  if (series == panel.series.end()) panel.series.push_back(point.series);
  auto line = std::ranges::find(panel.lines, point.x, &Panel::Line::x);
  if (line == panel.lines.end()) {
    panel.lines.push_back({.x = point.x, .y = {}});
    line = panel.lines.end() - 1;
  }
  if (line->y.size() <= column) line->y.resize(column + 1);
  line->y[column] = y;
}

Panel panel_of(const Results& results, Panel panel, const std::string& unit,
               const Placing& placing) {
  for (const Row& row : results.rows) {
    if (row.unit != unit) continue;
    const auto point = placing(parts_of(row.name), row);
    if (!point) continue;
    put(panel, *point, row.value);
    if (row.limit && !results.limit_name.empty())
      put(panel, {point->x, results.limit_name}, *row.limit);
  }
  for (Panel::Line& line : panel.lines) line.y.resize(panel.series.size());
  return panel;
}

std::vector<std::string> distinct(const Results& results,
                                  const std::function<std::string(const Row&)>& key) {
  std::vector<std::string> all;
  for (const Row& row : results.rows)
    if (std::string one = key(row); !one.empty() && std::ranges::find(all, one) == all.end())
      all.push_back(std::move(one));
  return all;
}
std::vector<std::string> dtypes(const Results& results) {
  return distinct(results, [](const Row& row) {
    const std::string last = parts_of(row.name).back();
    return last == "f32" || last == "bf16" || last == "f16" ? last : std::string();
  });
}

void add(std::vector<Figure>& figures, Figure figure) {
  std::erase_if(figure.panels, [](const Panel& panel) { return panel.lines.empty(); });
  if (!figure.panels.empty()) figures.push_back(std::move(figure));
}

}  // namespace itif::bench
