#include "report/gnuplot.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "report/write_text.h"

extern char** environ;

namespace itif::bench {
namespace {

// Quotes a string for a gnuplot script (') or its data (").
std::string quoted(const std::string& text, char quote) {
  std::string all(1, quote);
  for (const char c : text) {
    if (c == quote) all += quote == '\'' ? "'" : "\\";
    all += c;
  }
  return all + quote;
}

// The colour of a series is the same in every panel and figure: fixed for the execution modes, else
// by its first occurrence in the figure. "NAME (thesis)" is a lighter NAME. (Colours that remain
// distinct to the colour-blind: Paul Tol's "bright".)
std::string colour_of(const Figure& figure, const std::string& series) {
  struct Fixed {
    std::string_view series, colour;
  };
  constexpr Fixed kFixed[] = {{"seq", "4477AA"},        {"multi-stream", "66CCEE"},
                              {"mps", "228833"},        {"itif", "EE6677"},
                              {"packed", "AA3377"},     {"seq-fused", "CCBB44"},
                              {"seq / itif", "EE6677"}, {"seq-fused / packed", "AA3377"},
                              {"floor", "BBBBBB"},      {"naive", "4477AA"},
                              {"turbo", "66CCEE"},      {"joint", "228833"},
                              {"auto", "CCBB44"},       {"concat", "EE6677"},
                              {"das", "EE6677"},        {"sjf", "228833"},
                              {"fcfs", "4477AA"},       {"edf", "66CCEE"},
                              {"fair", "CCBB44"},       {"das:fair", "AA3377"}};
  constexpr std::string_view kOthers[] = {"4477AA", "EE6677", "228833", "CCBB44",
                                          "66CCEE", "AA3377", "BBBBBB"};
  constexpr std::string_view kThesis = " (thesis)";
  if (series.ends_with(kThesis))
    return "80" + colour_of(figure, series.substr(0, series.size() - kThesis.size()));
  for (const Fixed& fixed : kFixed)
    if (fixed.series == series) return std::string(fixed.colour);
  std::vector<std::string_view> known;
  for (const Panel& panel : figure.panels)
    for (const std::string& one : panel.series)
      if (std::ranges::find(known, one) == known.end()) known.push_back(one);
  const auto index = static_cast<size_t>(std::ranges::find(known, series) - known.begin());
  return std::string(kOthers[index % std::size(kOthers)]);
}

std::string panel_script(const Figure& figure, size_t index) {
  const Panel& panel = figure.panels[index];
  const bool bars = panel.kind == Panel::Kind::kBars;
  size_t longest_label = 0;
  double least = std::numeric_limits<double>::infinity();  // of the values above 0
  for (const Panel::Line& line : panel.lines) {
    longest_label = std::max(longest_label, line.x.size());
    for (const auto& y : line.y)
      if (y && *y > 0) least = std::min(least, *y);
  }
  constexpr size_t kLabelWidth = 60;  // characters that fit below one of two panels
  const bool is_crowded = longest_label > 16 || longest_label * panel.lines.size() > kLabelWidth;
  std::string text =
      fmt::format("set title {}\nset xlabel {}\nset ylabel {}\n", quoted(panel.title, '\''),
                  quoted(panel.x_label, '\''), quoted(panel.y_label, '\''));
  const bool is_log = bars && panel.y_scale == Panel::Scale::kLog10;
  // Room for the key above the curves; a logarithmic axis takes it as a part of the graph only.
  text += is_log ? "set logscale y\nset offsets graph 0, graph 0, graph 0.15, graph 0\n"
                 : "unset logscale y\nset offsets graph 0, 0, 0.35, 0\n";
  // gnuplot warns of an axis from 0 to 0.
  const std::string range = !is_log             ? std::isinf(least) ? "0:1" : "0:*"
                            : std::isinf(least) ? "*:*"
                                                : fmt::format("{:.6g}:*", least / 3);
  text += fmt::format(
      "{}\nset yrange [{}]\nset xtics autofreq {}\n",
      !bars && panel.x_scale == Panel::Scale::kLog2 ? "set logscale x 2" : "unset logscale x",
      range, bars && is_crowded ? "rotate by -20" : "norotate");
  text += "plot";
  for (size_t s = 0; s < panel.series.size(); ++s)
    text += fmt::format("{} {} index {} using {} with {} lc rgb '#{}' title {}",
                        s > 0 ? ", \\\n      " : "", quoted(figure.name + ".dat", '\''), index,
                        bars ? fmt::format("{}:xtic(1)", s + 2) : fmt::format("1:{}", s + 2),
                        bars ? "histograms" : "linespoints", colour_of(figure, panel.series[s]),
                        quoted(panel.series[s], '\''));
  return text + "\n";
}

}  // namespace

std::string gnuplot_data(const Figure& figure) {
  std::string text;
  for (const Panel& panel : figure.panels) {
    if (!text.empty()) text += "\n\n";
    text += fmt::format("# {}\n# x", panel.title);
    for (const std::string& series : panel.series) text += fmt::format(" {}", quoted(series, '"'));
    text += '\n';
    for (const Panel::Line& line : panel.lines) {
      text += panel.kind == Panel::Kind::kBars ? quoted(line.x, '"') : line.x;
      for (const auto& y : line.y) text += y ? fmt::format(" {:.6g}", *y) : " ?";
      text += '\n';
    }
  }
  return text;
}

std::string gnuplot_script(const Figure& figure) {
  const size_t columns = figure.panels.size() > 1 ? 2 : 1;
  const size_t rows = (figure.panels.size() + columns - 1) / columns;
  const size_t width = columns == 1 ? 900 : 1200, height = 80 + 380 * rows;
  std::string text = fmt::format(
      "# Draws {0}.svg from {0}.dat, in this folder: gnuplot {0}.gp\n"
      "set datafile missing '?'\nset style data histograms\nset style histogram clustered gap 1\n"
      "set style fill solid 0.8 border -1\nset boxwidth 0.9\nset grid ytics\n"
      "set key inside top center horizontal maxcols 3 samplen 1.5\n"
      "set terminal svg size {1},{2} noenhanced background 'white'\n"
      "set output '{0}.svg'\n"
      "set multiplot layout {3},{4} title {5}\n",
      figure.name, width, height, rows, columns, quoted(figure.title, '\''));
  for (size_t index = 0; index < figure.panels.size(); ++index) text += panel_script(figure, index);
  return text + "unset multiplot\nunset output\n";
}

Status write_figure(const Figure& figure, const std::string& directory) {
  const std::string path = directory + "/" + figure.name;
  ITIF_TRY(write_text(path + ".dat", gnuplot_data(figure)));
  return write_text(path + ".gp", gnuplot_script(figure));
}

Status draw_figure(const Figure& figure, const std::string& directory, const std::string& program) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  std::string name = program, script = figure.name + ".gp";
  char* argv[] = {name.data(), script.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, name.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return fail(error == ENOENT ? Code::kNotFound : Code::kInternal,
                fmt::format("cannot run {}: {}", program, errno_text(error)));
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::kInternal, fmt::format("{} could not draw {}", program, script));
  return {};
}

}  // namespace itif::bench
