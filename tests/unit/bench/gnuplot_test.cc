// Figures from fixed rows, and the files written for them.
#include "report/gnuplot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "report/figures.h"

namespace itif::bench {
namespace {

Row row(const std::string& name, const std::string& mode, double value, const std::string& unit) {
  return {.name = name, .mode = mode, .value = value, .unit = unit};
}

// Returns the figure called `name` of one bench.
Figure figure_of(const std::string& bench, std::vector<Row> rows, const std::string& name) {
  const Results results{.bench = bench, .limit_name = "floor", .rows = std::move(rows)};
  for (const Figure& figure : make_figures({&results, 1}))
    if (figure.name == name) return figure;
  ADD_FAILURE() << "no figure " << name;
  return {};
}

TEST(Figures, TableOfTenantsGivesFigure51) {
  std::vector<Row> rows;
  for (const char* model : {"bert-base", "vit-base"})
    for (const char* tenants : {"2", "4"})
      for (const char* mode : {"seq", "mps", "itif", "seq-fused", "packed"}) {
        rows.push_back(row(fmt::format("{}, {} tenants, bf16", model, tenants), mode,
                           std::string_view(mode) == "itif"     ? 10
                           : std::string_view(mode) == "packed" ? 5
                                                                : 20,
                           "ms"));
        rows.back().limit = 8;
      }
  rows[5].paper = 13.51;  // seq of four tenants of bert-base
  rows[7].paper = 8.94;
  const Figure speed_ups = figure_of("tenants", rows, "figure-5.1-bf16");
  ASSERT_EQ(speed_ups.panels.size(), 2u);
  const Panel& bars = speed_ups.panels[0];
  EXPECT_EQ(bars.kind, Panel::Kind::kBars);
  EXPECT_EQ(bars.series, (std::vector<std::string>{"seq", "mps", "seq (thesis)"}));
  ASSERT_EQ(bars.lines.size(), 2u);
  EXPECT_EQ(bars.lines[0].x, "bert-base");
  EXPECT_EQ(bars.lines[0].y[0], 2.0);
  EXPECT_DOUBLE_EQ(*bars.lines[0].y[2], 13.51 / 8.94);
  EXPECT_FALSE(bars.lines[1].y[2]);

  const Panel& packed = speed_ups.panels[1];
  EXPECT_EQ(packed.series, (std::vector<std::string>{"seq", "mps", "seq-fused"}));
  EXPECT_EQ(packed.lines[1].y[2], 4.0);

  const Figure curves = figure_of("tenants", rows, "tenants-bf16");
  ASSERT_EQ(curves.panels.size(), 2u);
  EXPECT_EQ(curves.panels[1].title, "vit-base");
  EXPECT_EQ(curves.panels[1].series,
            (std::vector<std::string>{"seq", "floor", "mps", "itif", "seq-fused", "packed"}));
  ASSERT_EQ(curves.panels[1].lines.size(), 2u);
  EXPECT_EQ(curves.panels[1].lines[1].x, "4");
}

TEST(Figures, BatchingGivesLatencyAndThroughput) {
  std::vector<Row> rows;
  for (int tenants = 2; tenants <= 5; ++tenants)
    for (const int requests : {8, 16}) {
      const std::string name =
          fmt::format("albert-large, {} tenants, {} requests, f32", tenants, requests);
      rows.push_back(row(name, "itif", requests, "ms"));
      rows.push_back(row(name, "itif", 1000, "requests/s"));
    }
  rows.push_back(row("albert-large, 5 tenants, f32", "seq / itif", 2, "times"));
  EXPECT_EQ(figure_of("batching", rows, "figure-5.2-f32").panels.size(), 4u);
  EXPECT_EQ(figure_of("batching", rows, "figure-5.3-f32").panels.size(), 2u);
  const Figure last = figure_of("batching", rows, "figure-5.4-f32");
  ASSERT_EQ(last.panels.size(), 2u);
  EXPECT_EQ(last.panels[1].title, "5 tenants");
  ASSERT_EQ(last.panels[1].lines.size(), 2u);
  EXPECT_EQ(last.panels[1].lines[1].x, "16");
  EXPECT_EQ(last.panels[1].lines[1].y[0], 1000.0);
}

TEST(Figures, OtherBenchesGiveTheirFigures) {
  const Figure scaling = figure_of(
      "scaling",
      {row("8 tenants, f32", "packed", 5, "tokens/s"),
       row("hidden 256, f32", "packed", 6, "tokens/s"),
       row("hidden 512, f32", "packed", 7, "tokens/s"), row("hidden 512, f32", "packed", 8, "ms")},
      "scaling-f32");
  ASSERT_EQ(scaling.panels.size(), 2u);
  EXPECT_EQ(scaling.panels[1].title, "hidden");
  EXPECT_EQ(scaling.panels[1].lines.size(), 2u);
  const Figure latency =
      figure_of("scaling", {row("hidden 512, f32", "packed", 8, "ms")}, "scaling-latency-f32");
  ASSERT_EQ(latency.panels.size(), 1u);
  EXPECT_EQ(latency.panels[0].lines[0].y[0], 8.0);

  const Figure few =
      figure_of("few-tokens",
                {row("bert-tiny, 4 tenants, 1-16 tokens, f32", "seq / itif", 2, "times"),
                 row("bert-tiny, 4 tenants, 1-16 tokens, f32", "seq-fused / packed", 3, "times"),
                 row("bert-tiny, 4 tenants, 1-16 tokens, f32", "seq", 4, "ms")},
                "few-tokens-f32");
  ASSERT_EQ(few.panels.size(), 1u);
  EXPECT_EQ(few.panels[0].lines[0].x, "4 tenants, 1-16 tokens");
  EXPECT_EQ(few.panels[0].lines[0].y[1], 3.0);

  const Figure mixed = figure_of("mixed",
                                 {row("lengths 1-128 (2 layers), f32", "naive", 5, "tokens/s"),
                                  row("lengths 1-128 (2 layers), f32", "naive", 47, "% pad")},
                                 "mixed-f32");
  ASSERT_EQ(mixed.panels.size(), 2u);
  EXPECT_EQ(mixed.panels[0].lines[0].x, "lengths 1-128 (2 layers)");

  const Figure operators =
      figure_of("operators",
                {row("softmax", "seq", 3, "us"), row("get Q/K/V, bf16", "seq", 4, "us"),
                 row("get Q/K/V, bf16", "itif", 2, "us")},
                "figure-5.5");
  EXPECT_EQ(operators.panels[0].series.size(), 2u);
  EXPECT_EQ(operators.panels[0].lines.size(), 1u);

  const Results none{.bench = "operators", .rows = {row("softmax", "seq", 3, "us")}};
  EXPECT_TRUE(make_figures({&none, 1}).empty());
}

Figure odd() {
  return {.name = "odd",
          .title = "an 'odd' one",
          .bench = "b",
          .panels = {{.title = "lines",
                      .x_label = "x",
                      .y_label = "ms",
                      .series = {"a \"b\"", "c"},
                      .lines = {{"2", {1.5, std::nullopt}}, {"4", {2, 3}}}},
                     {.title = "bars",
                      .x_label = {},
                      .y_label = "%",
                      .kind = Panel::Kind::kBars,
                      .series = {"a"},
                      .lines = {{"lengths 1-128", {7}}}}}};
}

TEST(Gnuplot, DataHasOneBlockPerPanel) {
  EXPECT_EQ(gnuplot_data(odd()),
            "# lines\n# x \"a \\\"b\\\"\" \"c\"\n2 1.5 ?\n4 2 3\n\n\n"
            "# bars\n# x \"a\"\n\"lengths 1-128\" 7\n");
}

TEST(Gnuplot, ScriptDrawsOnePicture) {
  const std::string script = gnuplot_script(odd());
  for (const char* part :
       {"# Draws odd.svg from odd.dat, in this folder: gnuplot odd.gp\n", "set output 'odd.svg'",
        "title 'an ''odd'' one'",
        "'odd.dat' index 0 using 1:2 with linespoints lc rgb '#4477AA' title 'a \"b\"'",
        "'odd.dat' index 0 using 1:3 with linespoints lc rgb '#EE6677' title 'c'",
        "'odd.dat' index 1 using 2:xtic(1) with histograms lc rgb '#228833' title 'a'"})
    EXPECT_NE(script.find(part), std::string::npos) << part << "\nis not in\n" << script;
}

TEST(Gnuplot, AnAxisMayBeLinear) {
  Figure figure = odd();
  EXPECT_NE(gnuplot_script(figure).find("\nset logscale x 2\n"), std::string::npos);
  figure.panels[0].x_scale = Panel::Scale::kLinear;
  EXPECT_EQ(gnuplot_script(figure).find("set logscale x 2"), std::string::npos);
}

// gnuplot warns of an empty range.
TEST(Gnuplot, AnAxisOfZerosHasARange) {
  Figure figure = odd();
  EXPECT_EQ(gnuplot_script(figure).find("set yrange [0:1]"), std::string::npos);
  EXPECT_NE(gnuplot_script(figure).find("set yrange [0:*]"), std::string::npos);
  figure.panels[0].lines = {{"2", {0, std::nullopt}}, {"4", {0, 0}}};
  EXPECT_NE(gnuplot_script(figure).find("set yrange [0:1]"), std::string::npos);
}

TEST(Gnuplot, ModesHaveOneColourInEveryPanel) {
  Figure figure = odd();
  figure.panels[0].series = {"mps", "itif"};
  figure.panels[1].series = {"itif (thesis)"};
  const std::string script = gnuplot_script(figure);
  for (const char* part : {"lc rgb '#228833' title 'mps'", "lc rgb '#EE6677' title 'itif'",
                           "lc rgb '#80EE6677' title 'itif (thesis)'"})
    EXPECT_NE(script.find(part), std::string::npos) << part << "\nis not in\n" << script;
}

class GnuplotFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/itif-plots-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string start_of(const std::string& file) const {
    std::ifstream in(folder_ + "/" + file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {}).substr(0, 400);
  }
  std::string folder_;
};

TEST_F(GnuplotFiles, CanBeDrawnFromTheFolder) {
  ASSERT_TRUE(write_figure(odd(), folder_));
  const Status drawn = draw_figure(odd(), folder_);
  if (!drawn && drawn.error().code == Code::kNotFound) GTEST_SKIP() << drawn.error().message;
  ASSERT_TRUE(drawn) << drawn.error().message;
  EXPECT_NE(start_of("odd.svg").find("<svg"), std::string::npos);
}

TEST_F(GnuplotFiles, ErrorSaysThatGnuplotIsMissingOrFailed) {
  ASSERT_TRUE(write_figure(odd(), folder_));
  const Status none = draw_figure(odd(), folder_, "no-such-gnuplot");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_NE(none.error().message.find("no-such-gnuplot"), std::string::npos);
  const Status failed = draw_figure(odd(), folder_, "false");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInternal);
  EXPECT_FALSE(write_figure(odd(), folder_ + "/none"));
}

}  // namespace
}  // namespace itif::bench
