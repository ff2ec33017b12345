#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/tables.h"

namespace itif::bench {
namespace {

constexpr const char* kLegend =
    "Medians. A cell holds our figure, `[`the thesis's`]` (RTX A5000 with an AMD Threadripper PRO "
    "3945WX, whole models; in slices, slab, components and sharing GSLICE's, on a Tesla V100) and "
    "`(`our "
    "figure divided by the limit`)`. The limit was measured in "
    "the "
    "same run; the last column names it. A ratio of 1 is best; times lie above 1, rates below. "
    "Milliseconds of two machines cannot be compared; speed-ups can.\n";

// The field's value in the first bench that has one.
std::string first_of(std::span<const Results> all, std::string Results::*field) {
  for (const Results& results : all)
    if (!(results.*field).empty()) return results.*field;
  return "unknown";
}

std::string overview(std::span<const Results> all) {
  std::string text = "| bench | measures | took | result |\n|---|---|---:|---|\n";
  for (const Results& r : all)
    text += fmt::format(
        "| [{0}](#{0}) | {1} | {2:.0f} s | {3} |\n", r.bench, r.description, r.seconds,
        r.error.empty() && r.device.empty() && r.rows.empty() ? "not run"
        : r.error.empty()
            ? fmt::format("{} figures, [{}.json]({}.json)", r.rows.size(), r.bench, r.bench)
            : "**failed**");
  return text;
}

std::string plots_of(const Results& results, std::span<const Figure> figures, bool drawn) {
  std::string text;
  for (const Figure& figure : figures) {
    if (figure.bench != results.bench) continue;
    text += drawn ? fmt::format("\n![{0}]({1}.svg)\n\n{0}\n", figure.title, figure.name)
                  : fmt::format("\n{0}: [data]({1}.dat), [script]({1}.gp)\n", figure.title,
                                figure.name);
  }
  return text;
}

std::string section(const Results& results, const std::string& plots) {
  std::string text = fmt::format("\n## {}\n", results.bench);
  if (!results.description.empty()) text += fmt::format("\n{}\n", results.description);
  if (!results.device.empty()) text += fmt::format("\nDevice: {}\n", results.device);
  if (!results.error.empty()) text += fmt::format("\n**Failed: {}**\n", results.error);
  text += plots;
  if (!results.rows.empty()) text += "\n" + markdown_tables(results);
  for (const std::string& note : results.notes) text += fmt::format("\n- {}", note);
  if (!results.notes.empty()) text += "\n";
  return text;
}

}  // namespace

std::string markdown_report(const std::string& command, std::span<const Results> all,
                            std::span<const Figure> figures, bool drawn,
                            const std::string& no_plots) {
  std::string text = fmt::format(
      "# Benches of itif\n\n| | |\n|---|---|\n| command | `{}` |\n| commit | {} |\n| machine | {} "
      "|\n"
      "| device | {} |\n\n{}\n",
      command, first_of(all, &Results::commit), first_of(all, &Results::machine),
      first_of(all, &Results::device), overview(all));
  text += kLegend;
  if (!no_plots.empty()) text += fmt::format("\n{}\n", no_plots);
  for (const Results& results : all) text += section(results, plots_of(results, figures, drawn));
  return text;
}

std::string markdown_section(const Results& results) {
  return section(results, "");
}

}  // namespace itif::bench
