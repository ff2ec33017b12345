#include "report/gslice_figures.h"

#include <fmt/format.h>

#include "report/panels.h"

namespace itif::bench {
namespace {

// A group of bars per first part of the cases whose second part is `second`, or that have none.
Panel bars(const Results& results, const std::string& dtype, const std::string& title,
           const std::string& unit, const std::string& second = {}) {
  Panel panel = {.title = title, .y_label = unit, .kind = Panel::Kind::kBars};
  // Combinations with the lightest model answer hundreds of times as much as others.
  if (!second.empty()) panel.y_scale = Panel::Scale::kLog10;
  return panel_of(results, panel, unit,
                  [&](const auto& parts, const Row& row) -> std::optional<Point> {
                    const size_t num_parts = second.empty() ? 2 : 3;
                    if (parts.size() != num_parts || parts.back() != dtype) return {};
                    if (!second.empty() && parts[1] != second) return {};
                    return Point{parts[0], row.mode};
                  });
}

Panel lines(const Results& results, const std::string& dtype, const std::string& title,
            const std::string& unit) {
  Panel panel = {.title = title, .x_label = "objective, ms", .y_label = unit};
  return panel_of(results, panel, unit,
                  [&](const auto& parts, const Row& row) -> std::optional<Point> {
                    if (parts.size() != 3 || parts[0] != "objective" || parts[2] != dtype)
                      return {};
                    return Point{parts[1].substr(0, parts[1].find(' ')), row.mode};
                  });
}

void slices(const Results& results, const std::string& dtype, std::vector<Figure>& figures) {
  constexpr const char* kAll = "all groups";
  add(figures,
      {.name = "figures-8-10-" + dtype,
       .title = "Figures 8 to 10: one to four groups, " + dtype,
       .bench = results.bench,
       .panels = {bars(results, dtype, "throughput", "answers/s", kAll),
                  bars(results, dtype, "mean time of a batch", "batch ms", kAll),
                  bars(results, dtype, "utilisation efficacy (answers/s per ms)", "GUE", kAll)}});
}

void slab(const Results& results, const std::string& dtype, std::vector<Figure>& figures) {
  add(figures, {.name = "figure-14-" + dtype,
                .title = "Figure 14: controls of the batch size by objective, " + dtype,
                .bench = results.bench,
                .panels = {lines(results, dtype, "throughput", "answers/s"),
                           lines(results, dtype, "latency", "p99 ms"),
                           lines(results, dtype, "later than the objective", "% late")}});
}

void components(const Results& results, const std::string& dtype, std::vector<Figure>& figures) {
  add(figures, {.name = "figure-12ab-" + dtype,
                .title = "Figures 12a and 12b: what each component brings, " + dtype,
                .bench = results.bench,
                .panels = {bars(results, dtype, "throughput", "answers/s"),
                           bars(results, dtype, "mean time of a batch", "batch ms")}});
}

}  // namespace

void gslice_figures(const Results& results, std::vector<Figure>& figures) {
  for (const std::string& dtype : dtypes(results)) {
    if (results.bench == "slices") slices(results, dtype, figures);
    if (results.bench == "slab") slab(results, dtype, figures);
    if (results.bench == "components") components(results, dtype, figures);
  }
}

}  // namespace itif::bench
