// Builds the panels of figures from the rows of a bench.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/figure.h"
#include "report/results.h"

namespace itif::bench {

// The point of a row in a figure.
struct Point {
  std::string x, series;
};
// `parts`: those of the row's name (parts_of()). Empty: the row is in another panel.
using Placing =
    std::function<std::optional<Point>(const std::vector<std::string>& parts, const Row& row)>;

// Sets the y of a series at an x, and adds either if it is new.
void put(Panel& panel, const Point& point, double y);
// Adds the rows with `unit` for which `placing` returns a point, and their limits as a further
// series.
Panel panel_of(const Results& results, Panel panel, const std::string& unit,
               const Placing& placing);
// Adds a figure without its empty panels, or none if all are empty.
void add(std::vector<Figure>& figures, Figure figure);

// The different keys of all rows, in their order. Empty keys do not count.
std::vector<std::string> distinct(const Results& results,
                                  const std::function<std::string(const Row&)>& key);
// The element types that name the rows' last parts.
std::vector<std::string> dtypes(const Results& results);

}  // namespace itif::bench
