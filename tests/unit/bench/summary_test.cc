// The report from fixed rows.
#include "report/summary.h"

#include <gtest/gtest.h>

#include "report/tables.h"

namespace itif::bench {
namespace {

Results tenants() {
  Results results{.bench = "tenants",
                  .description = "Table 5.2",
                  .seconds = 12,
                  .error = {},
                  .commit = "abc123",
                  .machine = "a CPU",
                  .device = "host",
                  .limit_name = "floor",
                  .notes = {"skipped vit-base, 64 tenants, f32: no memory"},
                  .rows = {}};
  const auto add = [&](const std::string& name, double seq, double itif, double paper_seq,
                       double paper_itif) {
    const double floor = itif / 1.25;
    results.rows.push_back({.name = name,
                            .mode = "seq",
                            .value = seq,
                            .unit = "ms",
                            .spread = 0.02,
                            .limit = floor,
                            .ratio = seq / floor,
                            .paper = paper_seq});
    results.rows.push_back({.name = name,
                            .mode = "itif",
                            .value = itif,
                            .unit = "ms",
                            .spread = 0.05,
                            .limit = floor,
                            .ratio = 1.25,
                            .paper = paper_itif});
    results.rows.push_back({.name = name,
                            .mode = "seq / itif",
                            .value = seq / itif,
                            .unit = "times",
                            .paper = paper_seq / paper_itif});
  };
  add("bert-base, 2 tenants, bf16", 40, 20, 6.90, 4.94);
  add("bert-base, 4 tenants, bf16", 2298, 40, 13.51, 8.94);
  return results;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Tables, UseTheLayoutOfTheThesis) {
  EXPECT_EQ(markdown_tables(tenants()),
            "ms, spread at most 5.0 %:\n\n"
            "| case |  |  | seq | itif | seq / itif | floor |\n"
            "|---|---|---|---:|---:|---:|---:|\n"
            "| bert-base | 2 tenants | bf16 | 40.00 [6.90] (2.50) | 20.00 [4.94] (1.25) |"
            " 2.00 × [1.40] | 16.00 |\n"
            "| bert-base | 4 tenants | bf16 | 2,298 [13.51] (71.81) | 40.00 [8.94] (1.25) |"
            " 57.45 × [1.51] | 32.00 |\n");
}

TEST(Tables, MarkFiguresWithAWideSpread) {
  Results results = tenants();
  results.rows[1].spread = 0.2;
  const std::string text = markdown_tables(results);
  EXPECT_TRUE(contains(text, "ms, spread at most 20.0 % (~: above 15 %):\n")) << text;
  EXPECT_TRUE(contains(text, "| 40.00 [6.90] (2.50) | 20.00 ~ [4.94] (1.25) |")) << text;
}

TEST(Tables, MarkSpeedUpsAndLimitsWithAWideSpread) {
  Results results = tenants();
  results.rows[2].spread = 0.3;
  for (Row* row : {&results.rows[0], &results.rows[1]}) row->limit_spread = 0.25;
  const std::string text = markdown_tables(results);
  EXPECT_TRUE(contains(text, "ms, spread at most 25.0 % (~: above 15 %):\n")) << text;
  EXPECT_TRUE(contains(text, "| 2.00 × ~ [1.40] | 16.00 ~ |\n")) << text;
}

TEST(Tables, EachUnitHasASeparateTable) {
  Results results = tenants();
  results.rows.push_back(
      {.name = "bert-base, 2 tenants, bf16", .mode = "itif", .value = 117.4, .unit = "MB"});
  const std::string text = markdown_tables(results);
  EXPECT_TRUE(contains(text, "\nMB:\n\n| case |  |  | itif |\n")) << text;
  EXPECT_TRUE(contains(text, "| bert-base | 2 tenants | bf16 | 117.4 |\n")) << text;
}

TEST(Tables, RowsWithSeparateLimitsAreListedVertically) {
  Results results{.bench = "b",
                  .rows = {{.name = "a|b",
                            .mode = "x",
                            .value = 2,
                            .unit = "us",
                            .spread = 0.1,
                            .limit = 1,
                            .ratio = 2},
                           {.name = "a|b",
                            .mode = "y",
                            .value = 3,
                            .unit = "us",
                            .limit = 4,
                            .ratio = 0.75,
                            .paper = 0.356}}};
  EXPECT_EQ(markdown_tables(results),
            "us:\n\n| case | mode | us | spread | limit | ratio | thesis |\n"
            "|---|---|---:|---:|---:|---:|---:|\n"
            "| a\\|b | x | 2.00 | 10.0 % | 1.00 | 2.00 |  |\n"
            "| a\\|b | y | 3.00 |  | 4.00 | 0.75 | 0.356 |\n");
}

TEST(Tables, SpeedUpsOfOtherCasesHaveATable) {
  Results results = tenants();
  results.rows.push_back(
      {.name = "bf16", .mode = "seq / itif", .value = 1.9, .unit = "times", .paper = 1.87});
  const std::string text = markdown_tables(results);
  EXPECT_TRUE(contains(text, "\ntimes:\n\n")) << text;
  EXPECT_TRUE(contains(text, "| bf16 | 1.90 [1.87] |")) << text;
}

TEST(Tables, FiguresHaveSignificantDigitsOnly) {
  EXPECT_EQ(figure_text(0.0254), "0.0254");
  EXPECT_EQ(figure_text(33.984), "33.98");
  EXPECT_EQ(figure_text(123.44), "123.4");
  EXPECT_EQ(figure_text(1234567), "1,234,567");
  EXPECT_EQ(figure_text(-999999), "-999,999");
}

TEST(Report, HasMachineBenchesFiguresAndFailures) {
  Results broken{.bench = "mixed", .description = "planners", .error = "killed by signal 6"};
  const std::vector<Results> all = {broken, tenants()};
  const std::vector<Figure> figures = make_figures(all);
  const std::string text = markdown_report("itif-bench all --quick", all, figures, true, "");
  for (const char* part :
       {"| command | `itif-bench all --quick` |", "| commit | abc123 |", "| machine | a CPU |",
        "| [mixed](#mixed) | planners | 0 s | **failed** |",
        "| [tenants](#tenants) | Table 5.2 | 12 s | 6 figures, [tenants.json](tenants.json) |",
        "**Failed: killed by signal 6**", "![Figure 5.1: ", "(figure-5.1-bf16.svg)",
        "(tenants-bf16.svg)", "40.00 [6.90] (2.50)", "\n- skipped vit-base, 64 tenants"})
    EXPECT_TRUE(contains(text, part)) << part << "\nis not in\n" << text;

  const std::string plain =
      markdown_report("itif-bench all", all, figures, false, "No plots: no gnuplot.");
  EXPECT_TRUE(contains(plain, "\nNo plots: no gnuplot.\n"));
  EXPECT_FALSE(contains(plain, ".svg")) << plain;
  EXPECT_TRUE(contains(plain, "[data](figure-5.1-bf16.dat)"));
}

}  // namespace
}  // namespace itif::bench
