// Figures of GSLICE: time lines, and bars and curves of the benches slices, slab and components.
#include <gtest/gtest.h>

#include <string>

#include "report/figures.h"
#include "report/gnuplot.h"
#include "report/time_line_figure.h"

namespace itif::bench {
namespace {

Row gslice_row(const std::string& name, const std::string& mode, double value,
               const std::string& unit) {
  return {.name = name, .mode = mode, .value = value, .unit = unit};
}

std::vector<std::string> titles_of(const Figure& figure) {
  std::vector<std::string> titles;
  for (const Panel& panel : figure.panels) titles.push_back(panel.title);
  return titles;
}

TEST(GsliceFigures, ATimeLineHasAPanelForEachMeasuredQuantity) {
  const TimeLine line = {
      .name = "figure-15",
      .title = "Figure 15",
      .interval_s = 0.5,
      .series = {{.name = "a", .intervals = {{.answered_per_s = 5, .mean_ms = 2}, {}}},
                 {.name = "b", .intervals = {{}}}}};
  const Figure figure = time_line_figure(line, "slices");
  EXPECT_EQ(figure.name, "figure-15");
  EXPECT_EQ(figure.bench, "slices");
  EXPECT_EQ(titles_of(figure), (std::vector<std::string>{"throughput", "mean latency"}));
  const Panel& throughput = figure.panels.front();
  EXPECT_EQ(throughput.series, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(throughput.lines.size(), 2u);
  EXPECT_EQ(throughput.lines[1].x, "0.5");
  EXPECT_EQ(throughput.lines[0].y[0], 5);
  EXPECT_EQ(throughput.lines[0].y[1], 0);
  EXPECT_FALSE(throughput.lines[1].y[1]) << "b has one period";
}

TEST(GsliceFigures, MixesAreGroupsOfBarsOfAllGroups) {
  const Results results = {
      .bench = "slices",
      .rows = {gslice_row("C1, all groups, bf16", "default", 10, "answers/s"),
               gslice_row("C1, all groups, bf16", "slab", 20, "answers/s"),
               gslice_row("C1, minilm-l6, bf16", "slab", 15, "answers/s"),
               gslice_row("C1, all groups, bf16", "slab", 2, "GUE"),
               gslice_row("C1, all groups, bf16", "slab / default", 2, "times")}};
  const std::vector<Figure> figures = make_figures({{results}});
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "figures-8-10-bf16");
  ASSERT_EQ(figures[0].panels.size(), 2u) << "no times of batches were measured";
  const Panel& throughput = figures[0].panels[0];
  EXPECT_EQ(throughput.series, (std::vector<std::string>{"default", "slab"}));
  ASSERT_EQ(throughput.lines.size(), 1u);
  EXPECT_EQ(throughput.lines[0].x, "C1");
  EXPECT_EQ(throughput.lines[0].y[1], 20);
}

TEST(GsliceFigures, ObjectivesAreTheAxisOfFigure14) {
  const Results results = {
      .bench = "slab",
      .rows = {gslice_row("objective, 25 ms, f32", "slab", 10, "answers/s"),
               gslice_row("objective, 50 ms, f32", "slab", 12, "answers/s"),
               gslice_row("convergence, 50 ms, the objective rises, f32", "slab", 70, "ms")}};
  const std::vector<Figure> figures = make_figures({{results}});
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "figure-14-f32");
  ASSERT_EQ(figures[0].panels.size(), 1u);
  ASSERT_EQ(figures[0].panels[0].lines.size(), 2u);
  EXPECT_EQ(figures[0].panels[0].lines[1].x, "50");
}

TEST(GsliceFigures, ComponentsAreBarsByModel) {
  const Results results = {.bench = "components",
                           .rows = {gslice_row("vit-base, f32", "none", 10, "answers/s"),
                                    gslice_row("vit-base, f32", "none", 7, "batch ms"),
                                    gslice_row("vit-base, f32", "streams / none", 1.1, "times")}};
  const std::vector<Figure> figures = make_figures({{results}});
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "figure-12ab-f32");
  EXPECT_EQ(figures[0].panels.size(), 2u);
}

TEST(GsliceFigures, TheFiguresOfABenchFollowItsTimeLines) {
  const TimeLine line = {.name = "figure-16",
                         .title = {},
                         .interval_s = 1,
                         .series = {{.name = "a", .intervals = {{.share_percent = 30}}}}};
  const std::vector<Figure> figures = make_figures({{{.bench = "slices", .time_lines = {line}}}});
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "figure-16");
}

TEST(GsliceFigures, SimulatedResultsHaveTheSameFigures) {
  const Results results = {.bench = "slices",
                           .rows = {gslice_row("C1, all groups, f16", "default", 10, "answers/s")}};
  const std::vector<Figure> figures = make_figures({{results}});
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "figures-8-10-f16");
  EXPECT_EQ(figures[0].panels[0].y_scale, Panel::Scale::kLog10);
  EXPECT_NE(gnuplot_script(figures[0]).find("set logscale y\n"), std::string::npos);
}

}  // namespace
}  // namespace itif::bench
